/** The JSON Schema of --schema: read from its file and checked before anything is started. */
import { createReadStream } from "node:fs";
import { resolve } from "node:path";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import { OutputSchema } from "../../shared/protocol/output.ts";
import { jsonIn, quoted } from "../../shared/protocol/text.ts";
import { readUpTo } from "./input.ts";

/** Maximum bytes of the file. A schema has at most 32 KB without its white space. */
const FILE_MAX_BYTES = 1024 * 1024;
const SHOWN_PATH_CHARS = 200;
const BYTE_ORDER_MARK = /^\uFEFF/;
const NAME_ANOTHER = "name a file with a JSON Schema";
const WRITE_ONE = 'write a JSON Schema, such as {"type":"object","properties":{"answer":{"type":"string"}}}';

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

/** Reads and checks the schema in `file`; undefined without one. Throws `invalid_input` with the file and the reason. */
export async function readOutputSchema(
  file: string | undefined,
  source: FileSource,
): Promise<OutputSchema | undefined> {
  if (file === undefined) return undefined;
  const text = await readText(file, source);
  if (Buffer.byteLength(text) > FILE_MAX_BYTES)
    throw refusal(file, `it is larger than ${FILE_MAX_BYTES / 1024 ** 2} MB; ${NAME_ANOTHER}`);
  const json = jsonIn(text.replace(BYTE_ORDER_MARK, ""));
  if (json === undefined) throw refusal(file, `it is not JSON; ${WRITE_ONE}`);
  const { data, error } = OutputSchema.safeParse(json);
  if (data) return data;
  const [issue] = error.issues;
  const problem = issue?.code === "custom" ? `it ${issue.message}` : `it holds no JSON object; ${WRITE_ONE}`;
  throw refusal(file, problem);
}

async function readText(file: string, { cwd, signal }: FileSource): Promise<string> {
  const input = createReadStream(resolve(cwd, file), { end: FILE_MAX_BYTES });
  try {
    return await readUpTo({ input, signal }, FILE_MAX_BYTES + 1);
  } catch (error) {
    if (signal.aborted) throw error;
    throw refusal(file, `${reasonOf(error)}; ${NAME_ANOTHER}`);
  } finally {
    input.destroy();
  }
}

function reasonOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return REASONS[code] ?? messageOf(error);
}

function refusal(file: string, problem: string): SubagentError {
  return new SubagentError(
    "invalid_input",
    `--schema ${quoted(file, SHOWN_PATH_CHARS)} cannot be used: ${problem}.`,
  );
}
