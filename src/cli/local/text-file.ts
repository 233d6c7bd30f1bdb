/** Text files that the command line names: read as UTF-8, with the reason of a refusal in words. */
import { isUtf8 } from "node:buffer";
import { createReadStream } from "node:fs";
import { resolve } from "node:path";
import { codeOf, messageOf, SubagentError } from "../../shared/errors.ts";
import { quoted } from "../../shared/protocol/text.ts";
import { readUpTo, type TextSource } from "./input.ts";

const MEGABYTE = 1024 * 1024;
const SHOWN_PATH_CHARS = 200;
const BYTE_ORDER_MARK = /^\uFEFF/;

/** Reasons of the file system, in words. */
const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  ENOTDIR: "there is no such file",
  EISDIR: "it is a directory",
  EACCES: "this user may not read it",
};

/** Directory of relative paths, and a signal that stops the reading; the reader then throws the signal's reason. */
export interface FileSource {
  readonly cwd: string;
  readonly signal: AbortSignal;
}

/** Words for a refusal: `--schema "x" cannot be used` and `a JSON Schema`; and the limit of the file. */
export interface FileForm {
  refused: string;
  wants: string;
  maxMegabytes: number;
}

/** Returns the path of a file as refusals show it. */
export function shownPath(file: string): string {
  return quoted(file, SHOWN_PATH_CHARS);
}

/** Reads a file, without its byte order mark. Throws `invalid_input` with the reason. */
export function readTextFile(file: string, source: FileSource, form: FileForm): Promise<string> {
  return textOf((maxBytes) => bytesOf(file, source, maxBytes), source.signal, form);
}

/** Reads standard input to its end, as {@link readTextFile} does a file. */
export function readTextInput(source: TextSource, form: FileForm): Promise<string> {
  return textOf((maxBytes) => readUpTo(source, maxBytes + 1), source.signal, form);
}

async function textOf(
  read: (maxBytes: number) => Promise<Buffer>,
  signal: AbortSignal,
  { refused, wants, maxMegabytes }: FileForm,
): Promise<string> {
  const refusal = (problem: string) => new SubagentError("invalid_input", `${refused}: ${problem}.`);
  const nameAnother = `name a file with ${wants}`;
  const maxBytes = maxMegabytes * MEGABYTE;
  const bytes = await read(maxBytes).catch((error: unknown) => {
    if (signal.aborted) throw error;
    throw refusal(`${reasonOf(error)}; ${nameAnother}`);
  });
  if (bytes.length > maxBytes) throw refusal(`it is larger than ${maxMegabytes} MB; ${nameAnother}`);
  if (!isUtf8(bytes)) throw refusal("it is not UTF-8; convert it, for example with iconv -t UTF-8");
  return bytes.toString("utf8").replace(BYTE_ORDER_MARK, "");
}

async function bytesOf(file: string, { cwd, signal }: FileSource, maxBytes: number): Promise<Buffer> {
  const input = createReadStream(resolve(cwd, file), { end: maxBytes });
  try {
    return await readUpTo({ input, signal }, maxBytes + 1);
  } finally {
    input.destroy();
  }
}

function reasonOf(error: unknown): string {
  return REASONS[codeOf(error) ?? ""] ?? messageOf(error);
}
