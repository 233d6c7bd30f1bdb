/**
 * Structured output: the JSON Schema that a parent may ask an answer to fit, within limits, and the parser of an answer's
 * text. The worker checks whether a value fits. Pure.
 */
import type { z } from "zod";
import { JsonObject } from "./content.ts";
import { unusableSchema } from "./schema-check.ts";
import { depthOf, JSON_MAX_DEPTH } from "./text.ts";

/** Maximum bytes (UTF-8) of a schema, because it is a part of the system prompt of each call. */
const OUTPUT_SCHEMA_MAX_BYTES = 32 * 1024;
/** Maximum characters of a text that is parsed as output. */
const OUTPUT_MAX_CHARS = 1024 * 1024;
const MAX_SCHEMA_DEPTH = 24;

/** A usable JSON Schema, 2020-12 unless `$schema` names an older draft; at most 32 KB, 24 levels, references only within it. */
export const OutputSchema = JsonObject.superRefine((schema, context) => {
  const problem = schemaProblem(schema);
  if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
});
/** See {@link OutputSchema}. */
export type OutputSchema = z.infer<typeof OutputSchema>;

function schemaProblem(schema: JsonObject): string | undefined {
  if (depthOf(schema, MAX_SCHEMA_DEPTH) > MAX_SCHEMA_DEPTH)
    return `nests deeper than ${MAX_SCHEMA_DEPTH} levels: make it flatter`;
  if (Buffer.byteLength(JSON.stringify(schema)) > OUTPUT_SCHEMA_MAX_BYTES)
    return `is longer than ${OUTPUT_SCHEMA_MAX_BYTES / 1024} KB: ask for less`;
  return unusableSchema(schema);
}

/** A text parsed as output: its JSON value, or one clause that says why it has none. */
export type ReadOutput = { status: "json"; value: unknown } | { status: "unreadable"; problem: string };

const FENCE = "```";
/** Text that may follow the opening fence. */
const LANGUAGE = /^[a-z]*\s*$/i;

/** Returns the content of a Markdown fence, which models like to put around JSON; any other text unchanged. */
function unfenced(text: string): string {
  const lineEnd = text.startsWith(FENCE) && text.endsWith(FENCE) ? text.indexOf("\n") : -1;
  if (lineEnd < 0 || !LANGUAGE.test(text.slice(FENCE.length, lineEnd))) return text;
  return text.slice(lineEnd + 1, -FENCE.length);
}

/** Parses `text` as one JSON value; white space or a Markdown fence around it is allowed. */
export function readOutput(text: string): ReadOutput {
  const trimmed = text.trim();
  if (trimmed === "") return { status: "unreadable", problem: "it is empty" };
  if (trimmed.length > OUTPUT_MAX_CHARS) return { status: "unreadable", problem: "it is too long" };
  try {
    const value: unknown = JSON.parse(unfenced(trimmed));
    if (depthOf(value) > JSON_MAX_DEPTH)
      return { status: "unreadable", problem: `it nests deeper than ${JSON_MAX_DEPTH} levels` };
    return { status: "json", value };
  } catch {
    return { status: "unreadable", problem: "it is not JSON, or has text around it" };
  }
}
