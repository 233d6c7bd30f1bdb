/** Errors over HTTP: RFC 9457 problem documents. */
import { STATUS_CODES } from "node:http";
import type { Response } from "express";

/**
 * Answers with a problem document; `detail` is one sentence that says what to do. `error` repeats it where Bull
 * Board's pages look for what to show.
 */
export function sendProblem(response: Response, status: number, detail: string): void {
  const problem = { type: "about:blank", title: STATUS_CODES[status], status, detail, error: detail };
  response
    .status(status)
    .set("Cache-Control", "no-store")
    .type("application/problem+json")
    .send(JSON.stringify(problem));
}
