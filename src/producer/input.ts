/** Reads what callers hand in: nothing gets past here that is malformed, over-long or too deeply nested. Pure. */
import { createHash } from "node:crypto";
import type { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import { depthOf, JSON_MAX_DEPTH } from "../shared/protocol/message.ts";

/** `value` as `schema` reads it, or `invalid_input` naming every wrong field; `what` says what was refused. */
export function readInput<S extends z.ZodType>(schema: S, value: unknown, what: string): z.output<S> {
  if (depthOf(value) > JSON_MAX_DEPTH) {
    throw new SubagentError(
      "invalid_input",
      `${what} refused: the input nests deeper than ${JSON_MAX_DEPTH} levels; make it flatter.`,
      { max_depth: JSON_MAX_DEPTH },
    );
  }
  const parsed = schema.safeParse(value, { error: wordingOf });
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map((issue) => ({
    field: issue.path.map(String).join(".") || "input",
    problem: issue.message,
  }));
  const list = issues.map(({ field, problem }) => `${field}: ${problem}`).join("; ");
  throw new SubagentError("invalid_input", `${what} refused, nothing was done: ${list}.`, { issues });
}

const EXPECTED: Readonly<Record<string, string>> = {
  array: "a list",
  boolean: "true or false",
  int: "a whole number",
  number: "a number",
  object: "an object",
  record: "an object",
  string: "text",
};

/** What is wrong, as a sentence that says what to write; undefined leaves it to the schema's own words. */
function wordingOf(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case "invalid_type":
      if (issue.input === undefined) return "is missing";
      return `must be ${EXPECTED[issue.expected] ?? issue.expected}`;
    case "too_small":
      return `must be ${issue.inclusive ? "at least" : "above"} ${issue.minimum}${unitOf(issue.origin)}`;
    case "too_big":
      return `must be ${issue.inclusive ? "at most" : "below"} ${issue.maximum}${unitOf(issue.origin)}`;
    case "invalid_value":
      return `must be one of ${issue.values.map(String).join(", ")}`;
    case "unrecognized_keys":
      return `does not know ${issue.keys.map((key) => JSON.stringify(key)).join(", ")}`;
    default:
      return undefined;
  }
}

function unitOf(origin: string): string {
  if (origin === "string") return " characters long";
  return origin === "array" ? " entries long" : "";
}

/** A digest of a JSON value that does not depend on the order of keys; undefined fields count as absent. */
export function digestOf(value: unknown): string {
  return createHash("sha256").update(canonical(value)).digest("hex");
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const fields = Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, field]) => `${JSON.stringify(key)}:${canonical(field)}`);
  return `{${fields.join(",")}}`;
}
