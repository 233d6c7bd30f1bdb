/**
 * The fence around a sub-agent's text for a parent's model. Pure, except for the random boundary.
 *
 * 1. Each rendering makes a new boundary, after the text was written: the text cannot contain it.
 * 2. Every text that looks like the beginning of one of our delimiters or notes is broken, in every spelling: only letters,
 *    digits and brackets count, each as a reader would read it. Quoting a quoted text changes nothing.
 * 3. Text that only a model reads (tag characters outside of a flag) and direction overrides are removed.
 */
import { randomBytes } from "node:crypto";

const BOUNDARY_BYTES = 6;

/** Returns a random boundary that no earlier text can contain. */
export function newBoundary(random: (size: number) => Buffer = randomBytes): string {
  return random(BOUNDARY_BYTES).toString("hex");
}

/**
 * Options of a fence. `before`, `after`: words of the runtime within it, around the text; the caller has quoted what others wrote
 * in them. `boundary`: by default a new one.
 */
export interface FenceOptions {
  before?: string;
  after?: string;
  boundary?: string;
}

/** Returns `text` between delimiters of the runtime; `head`: the runtime's facts about it. */
export function fenced(
  kind: string,
  head: string,
  text: string,
  { before = "", after = "", boundary = newBoundary() }: FenceOptions = {},
): string {
  const whole = `${before}${quoted(text)}${after}`;
  return `<sub_agent_${kind} ${head} boundary="${boundary}">\n${whole}\n</sub_agent_${kind} boundary="${boundary}">`;
}

/** A text without any of these characters contains no spelling of a bracket. */
const MAY_OPEN = /[<[&\\%\u0080-\u{10ffff}]/u;
const FLAG = "\\u{1f3f4}[\\u{e0030}-\\u{e0039}\\u{e0061}-\\u{e007a}]{1,6}\\u{e007f}";
const UNSEEN = new RegExp(`(${FLAG})|[\\u{e0000}-\\u{e007f}\\u202d\\u202e]`, "gu");

/** Returns a sub-agent's text without any part that a reader could take for a word of the runtime. */
export function quoted(text: string): string {
  if (!MAY_OPEN.test(text)) return text;
  const seen = text.replace(UNSEEN, (_, flag: string | undefined) => flag ?? "");
  const { folded, begins, ends } = fold(seen);
  let [out, at] = ["", 0];
  for (const { index } of folded.matchAll(/subagent/g)) {
    for (const open of openBefore(folded, index)) {
      out += `${seen.slice(at, begins[open])}(`;
      at = ends[open] ?? at;
    }
  }
  return out + seen.slice(at);
}

/** Returns the positions of the opening brackets directly before `index`, in order; skips empty tags between them. */
function openBefore(folded: string, index: number): number[] {
  const found: number[] = [];
  for (let at = index - 1; at >= 0; at -= 1) {
    const char = folded.charAt(at);
    if (char === "<" || char === "[") found.push(at);
    else if (folded.startsWith("<>", at - 1)) at -= 1;
    else break;
  }
  return found.reverse();
}

/** Several characters (escape, entity, percent code) that a reader or a parser reads as one. */
const SPELLING = new RegExp(
  [
    String.raw`(?:\u001b|\\u001b)\[[0-9;]{0,20}m`,
    `&(?:amp;?){0,4}(?:#x0*(?<hex>[0-9a-f]{1,6})|#0*(?<decimal>[0-9]{1,7})|(?<entity>[a-z]{2,24}(?=;)|[lg]t));?`,
    String.raw`\\u\{0*(?<braced>[0-9a-f]{1,6})\}|\\x(?<ascii>[0-9a-f]{2})|\\0*(?<octal>74|76|133|135)`,
    String.raw`\\0*(?<css>3[ce]|5[bd])|\\u(?<unit>[0-9a-f]{4})|%(?:25)*(?<percent>[0-9a-f]{2})`,
    String.raw`\\[nrtfbv"/]`,
  ].join("|"),
  "iuy",
);
/** The first characters of a {@link SPELLING}. */
const BEGINS_SPELLING = new Set(["&", "\\", "%", "\u001b"]);
const ENTITIES: ReadonlyMap<string, string> = new Map([
  ["lt", "<"],
  ["gt", ">"],
  ...["lsqb", "lbrack"].map((name) => [name, "["] as const),
  ...["rsqb", "rbrack"].map((name) => [name, "]"] as const),
]);

/** Returns the letters, digits and brackets of a text as a reader reads them, and where the spelling of each begins and ends. */
function fold(text: string): { folded: string; begins: number[]; ends: number[] } {
  const begins: number[] = [];
  const ends: number[] = [];
  let folded = "";
  for (let at = 0; at < text.length; ) {
    const [spelling, plain] = spelledAt(text, at);
    for (let i = 0; i < plain.length; i += 1) {
      begins.push(at);
      ends.push(at + spelling.length);
    }
    folded += plain;
    at += spelling.length;
  }
  return { folded, begins, ends };
}

/** Returns the spelling at `at`, and the letter, digit or bracket that it is read as; "" if it is read as none. */
function spelledAt(text: string, at: number): [spelling: string, plain: string] {
  const char = String.fromCodePoint(text.codePointAt(at) ?? 0);
  if (BEGINS_SPELLING.has(char)) {
    SPELLING.lastIndex = at;
    const found = SPELLING.exec(text);
    if (found) return [found[0], plainOf(meant(found.groups ?? {}))];
  }
  return [char, plainOf(char)];
}

/** Returns the character of an entity or escape; "" for an entity that is not in {@link ENTITIES}. */
function meant(groups: Readonly<Record<string, string | undefined>>): string {
  const { hex, decimal, entity, braced, ascii, octal, css, unit, percent } = groups;
  if (entity !== undefined) return ENTITIES.get(entity.toLowerCase()) ?? "";
  const inHex = hex ?? braced ?? ascii ?? css ?? unit ?? percent;
  if (inHex !== undefined) return charOf(Number.parseInt(inHex, 16));
  if (decimal !== undefined) return charOf(Number(decimal));
  if (octal !== undefined) return charOf(Number.parseInt(octal, 8));
  return "";
}

function charOf(code: number): string {
  return code <= 0x10ffff ? String.fromCodePoint(code) : "";
}

/** Characters that look like one of ours and that NFKD does not map to it. */
const LOOK_ALIKES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    "<": "‹❮❰❬ᐸ˂〈⟨〈《⟪⧼⋖⋜≺˱≪«⦑⦓⧀⪡⫷⮜◄◂ᚲⵦ𐏑︿︽",
    ">": "›❯❱❭ᐳ˃〉⟩〉》⟫⧽⋗⋝≻˲≫»⦒⦔⧁⪢⫸⮞►▸﹀︾",
    "[": "⁅【〔⟦〖❲⦋⦍⦏〚",
    "]": "⁆】〕⟧〗❳⦌⦎⦐〛",
    a: "аɑαᴀꭺꓮᗅ𖽀",
    b: "ьвƅᖯʙβᏼꓐɓᏴ",
    e: "еєҽεԑᴇꭼꓰ℮ꬲⴹ⋿",
    g: "ɡցԍɢꮐꓖᶃƍ",
    n: "ոпνηɴռꓠⲛ",
    s: "ѕꜱʂꮪꓢƽտ",
    t: "тτᴛꭲꓔⲧ𐊗",
    u: "υսцᴜʋꭎꭒꞟꓴ∪⋃",
  }).flatMap(([plain, alike]) => [...alike].map((char) => [char, plain] as const)),
);
/** Alphabets of drawn letters (white on black, flags), by the code of their A. */
const DRAWN = [0x1f150, 0x1f170, 0x1f1e6];
const ASCII = Array.from({ length: 0x80 }, (_, code) =>
  String.fromCharCode(code)
    .toLowerCase()
    .replace(/[^a-z0-9<>[\]]/, ""),
);
const COUNTS_NOT = /[^\p{L}\p{N}<>[\]]|\p{Default_Ignorable_Code_Point}/gu;

function plainOf(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  if (code < ASCII.length) return ASCII[code] ?? "";
  for (const first of DRAWN)
    if (code >= first && code < first + 26) return String.fromCharCode(0x61 + code - first);
  const same = char.normalize("NFKD").toLowerCase().replace(/\p{M}/gu, "");
  return (LOOK_ALIKES.get(char) ?? LOOK_ALIKES.get(same) ?? same).replace(COUNTS_NOT, "");
}
