/** The JSON Schema of --schema: read from its file and checked before anything is started. */
import { SubagentError } from "../../shared/errors.ts";
import { OutputSchema } from "../../shared/protocol/output.ts";
import { jsonIn } from "../../shared/protocol/text.ts";
import { type FileSource, readTextFile, shownPath } from "./text-file.ts";

/** Limit of the file. A schema has at most 32 KB without its white space. */
const MAX_MEGABYTES = 1;
const WRITE_ONE = 'write a JSON Schema, such as {"type":"object","properties":{"answer":{"type":"string"}}}';

/** Reads and checks the schema in `file`; undefined without one. Throws `invalid_input` with the file and the reason. */
export async function readOutputSchema(
  file: string | undefined,
  source: FileSource,
): Promise<OutputSchema | undefined> {
  if (file === undefined) return undefined;
  const refused = `--schema ${shownPath(file)} cannot be used`;
  const refusal = (problem: string) => new SubagentError("invalid_input", `${refused}: ${problem}.`);
  const form = { refused, wants: "a JSON Schema", maxMegabytes: MAX_MEGABYTES };
  const json = jsonIn(await readTextFile(file, source, form));
  if (json === undefined) throw refusal(`it is not JSON; ${WRITE_ONE}`);
  const { data, error } = OutputSchema.safeParse(json);
  if (data) return data;
  const [issue] = error.issues;
  throw refusal(issue?.code === "custom" ? `it ${issue.message}` : `it holds no JSON object; ${WRITE_ONE}`);
}
