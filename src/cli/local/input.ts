/** Texts for sub-agents: from the command line, or from standard input if the argument is `-`. */
import { isUtf8 } from "node:buffer";
import { SubagentError } from "../../shared/errors.ts";
import { MESSAGE_MAX_BYTES, MessageText } from "../../shared/protocol/message.ts";
import { onAbort } from "../../shared/stop-signal.ts";

/** The argument that means standard input. */
const STDIN = "-";

/** Standard input, and a signal that stops reading it; the reader then throws the signal's reason. */
export interface TextSource {
  readonly input: AsyncIterable<Buffer | string>;
  readonly signal: AbortSignal;
}

/** Returns the texts, with `-` replaced by standard input. Throws `invalid_input` if more than one is `-`, or it is not UTF-8. */
export async function readTexts(texts: readonly string[], source: TextSource): Promise<readonly string[]> {
  if (!texts.includes(STDIN)) return texts;
  if (texts.filter((text) => text === STDIN).length > 1) {
    throw new SubagentError("invalid_input", "Only one prompt can come from standard input: give - once.");
  }
  const read = await readUpTo(source, MESSAGE_MAX_BYTES + 1);
  // A longer text is cut, perhaps amid a character; it is refused for its length.
  if (read.length <= MESSAGE_MAX_BYTES && !isUtf8(read)) {
    throw new SubagentError(
      "invalid_input",
      "Standard input is not UTF-8: convert it, for example with iconv -t UTF-8.",
    );
  }
  return texts.map((text) => (text === STDIN ? read.toString("utf8") : text));
}

/** Reads and checks one text; `what` names it in the error, e.g. `The message`. Throws `invalid_input`. */
export async function readText(text: string, source: TextSource, what: string): Promise<string> {
  const [read = ""] = await readTexts([text], source);
  requireText(read, what);
  return read;
}

/** Throws `invalid_input` if `text` is no valid message for an agent. */
export function requireText(text: string, what: string): void {
  const checked = MessageText.safeParse(text);
  if (checked.success) return;
  const problem = checked.error.issues[0]?.message ?? "it cannot be used";
  throw new SubagentError("invalid_input", `${what} is refused: ${problem}.`);
}

/** Reads input to its end, or until it has at least `bytes`, because more is refused anyway. */
export async function readUpTo({ input, signal }: TextSource, bytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  let forget = () => {};
  const stopped = new Promise<never>((_resolve, reject) => {
    forget = onAbort(signal, () => reject(signal.reason));
  });
  const iterator = input[Symbol.asyncIterator]();
  try {
    while (size < bytes) {
      const next = await Promise.race([iterator.next(), stopped]);
      if (next.done === true) break;
      chunks.push(Buffer.from(next.value));
      size += Buffer.byteLength(next.value);
    }
    // Not after a stop: `return` would wait for a terminal that sends nothing more.
    await iterator.return?.();
  } finally {
    forget();
  }
  return Buffer.concat(chunks);
}
