/**
 * Structured output: the JSON Schema that a parent may ask an answer to fit, within bounds, and the JSON value that a text
 * holds. Whether a value fits is the worker's to check. Pure.
 */
import type { z } from "zod";
import { JsonObject } from "./content.ts";
import { depthOf, JSON_MAX_DEPTH } from "./message.ts";
import { unusableSchema } from "./schema-check.ts";

/** Most bytes (UTF-8) of a schema: it stands in the system prompt of each call. */
const OUTPUT_SCHEMA_MAX_BYTES = 32 * 1024;
/** Most characters of a text that is read as output. */
const OUTPUT_MAX_CHARS = 1024 * 1024;
const MAX_SCHEMA_DEPTH = 24;

/** A JSON Schema, 2020-12 unless `$schema` names an older draft. References stay within it; at most 32 KB, 24 levels. One that cannot be used is refused. */
export const OutputSchema = JsonObject.superRefine((schema, context) => {
  const problem = problemOf(schema);
  if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
});
/** See {@link OutputSchema}. */
export type OutputSchema = z.infer<typeof OutputSchema>;

function problemOf(schema: JsonObject): string | undefined {
  if (depthOf(schema, MAX_SCHEMA_DEPTH) > MAX_SCHEMA_DEPTH)
    return `nests deeper than ${MAX_SCHEMA_DEPTH} levels: make it flatter`;
  if (Buffer.byteLength(JSON.stringify(schema)) > OUTPUT_SCHEMA_MAX_BYTES)
    return `is longer than ${OUTPUT_SCHEMA_MAX_BYTES / 1024} KB: ask for less`;
  return unusableSchema(schema);
}

/** A text read as output: its JSON value, or one clause that says why it has none. */
export type ReadOutput = { status: "json"; value: unknown } | { status: "unreadable"; problem: string };

const FENCE = "```";
/** What may stand behind the fence that opens. */
const LANGUAGE = /^[a-z]*\s*$/i;

/** What is in a fence of Markdown, which models like to put around JSON; a text without one as it is. */
function unfenced(text: string): string {
  const lineEnd = text.startsWith(FENCE) && text.endsWith(FENCE) ? text.indexOf("\n") : -1;
  if (lineEnd < 0 || !LANGUAGE.test(text.slice(FENCE.length, lineEnd))) return text;
  return text.slice(lineEnd + 1, -FENCE.length);
}

/** The JSON value that `text` is, white space or a fence of Markdown around it allowed. */
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
