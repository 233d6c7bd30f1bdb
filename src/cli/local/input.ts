/** Texts for sub-agents as people give them: on the command line, or on standard input where `-` stands for it. */
import { SubagentError } from "../../shared/errors.ts";
import { MESSAGE_MAX_BYTES, MessageText } from "../../shared/protocol/message.ts";

/** Stands for standard input in the place of a text. */
const STDIN = "-";

/** The texts with standard input in the place of `-`. Throws `invalid_input` when more than one is `-`. */
export async function readTexts(
  texts: readonly string[],
  input: AsyncIterable<Buffer | string>,
): Promise<readonly string[]> {
  if (!texts.includes(STDIN)) return texts;
  if (texts.filter((text) => text === STDIN).length > 1) {
    throw new SubagentError("invalid_input", "Only one prompt can come from standard input: give - once.");
  }
  const read = await readUpTo(input, MESSAGE_MAX_BYTES + 1);
  return texts.map((text) => (text === STDIN ? read : text));
}

/** One text, checked; `what` names it in the refusal, e.g. `The message`. Throws `invalid_input`. */
export async function readText(
  text: string,
  input: AsyncIterable<Buffer | string>,
  what: string,
): Promise<string> {
  const [read = ""] = await readTexts([text], input);
  requireText(read, what);
  return read;
}

/** Throws `invalid_input` when an agent would not take `text`. */
export function requireText(text: string, what: string): void {
  const checked = MessageText.safeParse(text);
  if (checked.success) return;
  const problem = checked.error.issues[0]?.message ?? "it cannot be used";
  throw new SubagentError("invalid_input", `${what} is refused: ${problem}.`);
}

/** Reads text until it ends or holds at least `bytes`: more is refused anyway. */
async function readUpTo(input: AsyncIterable<Buffer | string>, bytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of input) {
    chunks.push(Buffer.from(chunk));
    size += Buffer.byteLength(chunk);
    if (size >= bytes) break;
  }
  return Buffer.concat(chunks).toString("utf8");
}
