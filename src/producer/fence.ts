/**
 * The fence behind which a sub-agent's text reaches a parent's model. Pure, but for the randomness of a boundary.
 *
 * 1. The boundary is made anew for each rendering, after the text was written: nothing in the text can name it.
 * 2. What passes for the beginning of one of our delimiters or notes is broken, however it is spelled: invisible
 *    characters, compatibility forms, look-alikes and entities count as what a reader takes them for.
 */
import { randomBytes } from "node:crypto";

const BOUNDARY_BYTES = 6;

/** A boundary that no text written before can hold. */
export function newBoundary(random: (size: number) => Buffer = randomBytes): string {
  return random(BOUNDARY_BYTES).toString("hex");
}

/** `text` between delimiters of the runtime; `head`: what the runtime says of it. */
export function fenced(kind: string, head: string, text: string, boundary = newBoundary()): string {
  return `<sub_agent_${kind} ${head} boundary="${boundary}">\n${quoted(text)}\n</sub_agent_${kind} boundary="${boundary}">`;
}

/** `<sub_agent_…>` and `[sub-agent …]` in a text that was folded. */
const OURS =
  /(?:<|&lt;?|&#0*60;?|&#x0*3c;?|\\u003c|\\x3c|%3c)(?=[\s/\\]*sub[\s_-]*agent)|\[(?=\s*sub[\s_-]*agent)/giu;
const INVISIBLE = /^[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Mn}\p{Me}]$|^(?!\s)\p{Cc}$/u;

/** Characters that look like one of ours and that no compatibility form leads to. */
const LOOK_ALIKES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    "<": "‹❮❰ᐸ˂〈⟨〈⧼⋖≺˱≪«",
    "/": "⁄∕⧸╱⟋〳",
    "[": "⁅【〔⟦〖",
    _: "‿⁔ˍ⎽",
    "-": "‐‑‒–—―−⁃﹣－⸺",
    a: "аɑαа",
    b: "ЬьƄᖯ",
    e: "еєҽεԑ",
    g: "ɡցԍǵ",
    n: "ոпνη",
    s: "ѕꜱʂ",
    t: "тτᴛ",
    u: "υսцᴜʋ",
  }).flatMap(([plain, alike]) => [...alike].map((char) => [char, plain] as const)),
);

/** The text of a sub-agent with nothing in it that could pass for a word of the runtime. */
export function quoted(text: string): string {
  const { folded, from } = fold(text);
  let [out, at] = ["", 0];
  for (const { 0: mark, index } of folded.matchAll(OURS)) {
    const begin = from[index] ?? 0;
    const [first = ""] = text.slice(begin);
    out += text.slice(at, begin) + (mark === "<" ? "&lt;" : "(");
    at = begin + first.length;
  }
  return out + text.slice(at);
}

/** The text as a reader takes it, and for each of its code units where it stands in the text itself. */
function fold(text: string): { folded: string; from: number[] } {
  const from: number[] = [];
  let [folded, at] = ["", 0];
  for (const char of text) {
    const plain = INVISIBLE.test(char) ? "" : plainOf(char);
    for (let i = 0; i < plain.length; i += 1) from.push(at);
    folded += plain;
    at += char.length;
  }
  return { folded, from };
}

function plainOf(char: string): string {
  if (char < "\u0080") return char;
  const same = char
    .normalize("NFKD")
    .toLowerCase()
    .replace(/\p{Mn}/gu, "");
  return LOOK_ALIKES.get(char) ?? LOOK_ALIKES.get(same) ?? same;
}
