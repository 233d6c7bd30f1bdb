/**
 * Errors over HTTP: RFC 9457 problem documents from the catalogue of errors. An answer repeats only a limited part of a
 * request: {@link MOST_TEXT} characters of a text, {@link MOST_ENTRIES} entries of a list.
 */
import { STATUS_CODES } from "node:http";
import type { Request, Response } from "express";
import { z } from "zod";
import { ERRORS, type ErrorCode, messageOf, SubagentError } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import { clip } from "../../shared/protocol/text.ts";

/** A problem document. `code`: from the catalogue; `detail`: one sentence that says what to do; `details`: the facts. */
export const Problem = z.object({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  code: z.string(),
  retryable: z.boolean(),
  details: z.record(z.string(), z.unknown()).optional(),
});
/** See {@link Problem}. */
export type Problem = z.infer<typeof Problem>;

const MOST_TEXT = 500;
const MOST_ENTRIES = 20;
const MOST_DEPTH = 4;

/** Errors of the process, not of the request: their details go only to its log. */
const INTERNAL: ReadonlySet<ErrorCode> = new Set([
  "invalid_config",
  "protocol_violation",
  "setup_failed",
  "invalid_tool",
]);
const UNEXPECTED = "This request cannot be answered; the server's log says why.";

/**
 * Returns the document for a thrown value. An error outside of the catalogue reveals nothing about this process. `logger`
 * gets it, and every other error of the process.
 */
export function problemDocument(error: unknown, logger: Logger | undefined): Problem {
  const known = error instanceof SubagentError ? error : undefined;
  const code = known?.code ?? codeOfStatus(error);
  if (INTERNAL.has(code)) logInternal(error, code, logger);
  const { httpStatus: status, retryable } = ERRORS[code];
  const isInternal = known === undefined || INTERNAL.has(code);
  const details = isInternal ? {} : bounded(known.details, MOST_DEPTH);
  return {
    type: `urn:subagent-queue:error:${code}`,
    title: STATUS_CODES[status] ?? "Error",
    status,
    detail: known ? clip(messageOf(known), 2 * MOST_TEXT) : sentenceOf(code, error),
    code,
    retryable,
    ...(isRecord(details) && Object.keys(details).length > 0 && { details }),
  };
}

function logInternal(error: unknown, code: ErrorCode, logger: Logger | undefined): void {
  const more = error instanceof SubagentError ? { details: error.details } : { stack: stackOf(error) };
  logger?.error({ code, problem: messageOf(error), ...more }, "A request could not be answered");
}

function stackOf(error: unknown): string | undefined {
  return error instanceof Error ? messageOf(error.stack) : undefined;
}

const loggers = new WeakMap<Response, Logger>();

/** Sets the logger of {@link sendProblem} for a response. */
export function logProblems(response: Response, logger: Logger | undefined): void {
  if (logger) loggers.set(response, logger);
}

const shown = new WeakSet<Response>();

/**
 * Lets {@link sendProblem} answer a person's browser with a page, and repeat the sentence as `error` for the requests of Bull Board's
 * pages: they show that field, and no other.
 */
export function showToPeople(response: Response): void {
  shown.add(response);
}

/** Answers with the problem document of `error`; if the answer has begun, closes the connection instead. */
export function sendProblem(response: Response, error: unknown): void {
  const problem = problemDocument(error, loggers.get(response));
  if (response.headersSent) return void response.destroy();
  if (problem.status === 401 && !response.hasHeader("WWW-Authenticate"))
    response.set("WWW-Authenticate", "Bearer");
  if (problem.retryable && !response.hasHeader("Retry-After")) response.set("Retry-After", "1");
  response.status(problem.status).set("Cache-Control", "no-store");
  const isShown = shown.has(response);
  if (isShown && response.req.accepts(["json", "html"]) === "html")
    return void response.type("html").send(pageOf(problem));
  response
    .type("application/problem+json")
    .send(JSON.stringify(isShown ? { ...problem, error: problem.detail } : problem));
}

function pageOf({ title, detail }: Problem): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escaped(title)}</title></head><body><h1>${escaped(title)}</h1><p>${escaped(detail)}</p></body></html>
`;
}

/** Returns a text, or the text of another value, as HTML that shows it. */
export function escaped(value: unknown): string {
  const text = typeof value === "string" ? value : String(value ?? "");
  return text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** Methods of an address that is only read; Express answers HEAD as it answers GET. */
export const READING: readonly string[] = ["GET", "HEAD"];

const SHOWN_METHOD_CHARS = 20;

/** Returns the refusal of a method that its address does not have; names those that it has in the header `Allow`. */
export function methodRefusal(
  { method }: Request,
  response: Response,
  allowed: readonly string[],
): SubagentError {
  response.set("Allow", allowed.join(", "));
  const shown = method.slice(0, SHOWN_METHOD_CHARS);
  const others = allowed.filter((each) => each !== "HEAD");
  return new SubagentError(
    "method_not_allowed",
    `${shown} is not answered here: use ${others.join(" or ")}.`,
  );
}

/** Returns the catalogue's code for an error of express or its parsers. */
function codeOfStatus(error: unknown): ErrorCode {
  const status: unknown = isRecord(error) ? error.status : undefined;
  if (status === 413) return "too_large";
  if (status === 404) return "not_found";
  return typeof status === "number" && status >= 400 && status < 500 ? "invalid_input" : "protocol_violation";
}

function sentenceOf(code: ErrorCode, error: unknown): string {
  if (error instanceof URIError)
    return "The address cannot be read: write its parts percent-encoded, as UTF-8.";
  if (code === "too_large") return "The body is too large: put long material into a file and name it.";
  if (code === "invalid_input")
    return "The request cannot be read: send well-formed JSON, uncompressed, as UTF-8.";
  return UNEXPECTED;
}

/** Returns a copy of `value`, cut to the size that an answer may repeat. */
function bounded(value: unknown, depth: number): unknown {
  if (typeof value === "string") return clip(value, MOST_TEXT);
  if (value === null || typeof value !== "object") return value;
  if (depth === 0) return "…";
  if (Array.isArray(value)) return value.slice(0, MOST_ENTRIES).map((each) => bounded(each, depth - 1));
  const fields = Object.entries(value).slice(0, MOST_ENTRIES);
  return Object.fromEntries(
    fields.map(([name, field]) => [clip(name, MOST_TEXT), bounded(field, depth - 1)]),
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
