/** Checks a final answer against the parent's output schema, in the processes that run untrusted patterns. */
import { messageOf, ToolFailure } from "../../shared/errors.ts";
import type { VerdictEntry } from "../../shared/protocol/log.ts";
import { type OutputSchema, readOutput } from "../../shared/protocol/output.ts";
import { clip } from "../../shared/protocol/text.ts";
import { matcherProcesses } from "./search/matcher.ts";

/**
 * Checks whether a text is output that fits the schema.
 *
 * @throws {ToolFailure} `unavailable` if the machine gives no process for it now, or a process too little of its processor.
 */
export type CheckOutput = (schema: OutputSchema, text: string) => Promise<VerdictEntry>;

/** Longest description of a problem, in characters: the model reads it. */
const MAX_PROBLEM_CHARS = 1_000;

/** Checks in the matching processes of this process. */
export const checkOutput: CheckOutput = async (schema, text) => {
  const read = readOutput(text);
  if (read.status === "unreadable") return { v: 1, fits: false, problem: read.problem };
  const matcher = matcherProcesses.open(new AbortController().signal);
  try {
    const mismatch = await matcher.mismatch(JSON.stringify(schema), JSON.stringify(read.value));
    if (mismatch === undefined) return { v: 1, fits: true };
    return { v: 1, fits: false, problem: clip(mismatch, MAX_PROBLEM_CHARS) };
  } catch (error) {
    if (error instanceof ToolFailure && error.reason === "unavailable") throw error;
    return { v: 1, fits: false, problem: `the schema cannot be used: ${messageOf(error)}`, final: true };
  } finally {
    await matcher.close();
  }
};
