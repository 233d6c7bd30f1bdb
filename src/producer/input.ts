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
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map((issue) => ({
    field: issue.path.map(String).join(".") || "input",
    problem: issue.message,
  }));
  const list = issues.map(({ field, problem }) => `${field}: ${problem}`).join("; ");
  throw new SubagentError("invalid_input", `${what} refused, nothing was done: ${list}.`, { issues });
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
