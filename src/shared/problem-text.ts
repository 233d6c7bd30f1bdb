/** Words for the problems of an input or a setting that a schema refuses, in place of those of zod. */
import type { z } from "zod";
import { quoted } from "./protocol/text.ts";

/** Maximum number of unknown names in one problem. */
const MOST_NAMES = 20;
/** Maximum characters of a shown name. */
const MOST_NAME_CHARS = 100;

const EXPECTED: Readonly<Record<string, string>> = {
  AbortSignal: "an AbortSignal",
  array: "a list",
  boolean: "true or false",
  date: "a date, such as 2026-05-31",
  int: "a whole number",
  number: "a number",
  object: "an object",
  record: "an object",
  string: "text",
};

const MISSING = "is missing";

/** Error map of zod. Returns the problem as the end of "<field>: …"; undefined: zod uses the schema's own message. */
export function wordingOf(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case "invalid_type":
      if (issue.input === undefined) return MISSING;
      return `must be ${EXPECTED[issue.expected] ?? issue.expected}`;
    case "too_small":
      return `must be ${issue.inclusive ? "at least" : "above"} ${issue.minimum}${unitOf(issue.origin, issue.minimum)}`;
    case "too_big":
      return `must be ${issue.inclusive ? "at most" : "below"} ${issue.maximum}${unitOf(issue.origin, issue.maximum)}`;
    case "invalid_value":
      return `must be ${oneOf(issue.values.map(String))}`;
    case "invalid_format":
      return issue.format === "url" ? "must be a URL" : undefined;
    case "unrecognized_keys": {
      const named = issue.keys.slice(0, MOST_NAMES).map((key) => quoted(key, MOST_NAME_CHARS));
      return `does not know ${named.join(", ")}`;
    }
    case "invalid_key":
      return `cannot have this name: ${issue.issues[0]?.message}`;
    case "invalid_union":
      return unionWording(issue.errors);
    default:
      return undefined;
  }
}

/** Returns the first problem of what a schema refused under {@link wordingOf}, with its path; `whole` names the value itself. */
export function problemText({ issues: [issue] }: z.ZodError, whole = "it"): string {
  return `${issue?.path.map(String).join(".") || whole}: ${issue?.message}`;
}

/**
 * Returns the problem of a value that fits none of several forms. Where each form lacks a field, these fields; else the problem
 * of the form with the fewest, which is the one that was meant.
 */
function unionWording(forms: readonly (readonly z.core.$ZodIssue[])[]): string | undefined {
  const missing = forms.map((issues) => issues.find(({ message }) => message === MISSING)?.path.join("."));
  if (missing.length > 0 && missing.every((field) => field !== undefined))
    return `needs ${missing.join(" or ")}`;
  const [closest] = [...forms].sort((a, b) => a.length - b.length);
  const issue = closest?.[0];
  return issue && `${issue.path.map(String).join(".")} ${issue.message}`.trim();
}

function oneOf(values: readonly string[]): string {
  return values.length === 1 ? `${values[0]}` : `one of ${values.join(", ")}`;
}

function unitOf(origin: string, count: number | bigint): string {
  if (origin === "string") return count === 1 ? " character long" : " characters long";
  if (origin === "array") return count === 1 ? " entry long" : " entries long";
  return "";
}
