/**
 * The board's HTTP application: guards first, then health, then Bull Board. Owns no socket and no connection.
 *
 * 1. A request passes the guards for Host, origin and method before any other handler reads it.
 * 2. No request waits for an unavailable Redis: the data routes answer 503 at once, or after {@link ANSWER_MS}. An answer that
 *    has begun by then is left to its client.
 */

import { type IncomingHttpHeaders, STATUS_CODES } from "node:http";
import type { Express, NextFunction, Request, RequestHandler, Response } from "express";
import express from "express";
import helmet from "helmet";
import { isAddress } from "../../shared/address-range.ts";
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import { isHostName } from "../../shared/options.ts";
import { quoted } from "../../shared/protocol/text.ts";

/** Path of Bull Board. */
export const BOARD_PATH = "/admin/queues";
/** A data route without an answer after this time answers 503. */
const ANSWER_MS = 5_000;
const READING: ReadonlySet<string> = new Set(["GET", "HEAD"]);
/** Sentence about a Redis that does not answer. */
export const REDIS_AWAY = "Redis does not answer; the board shows the queue again when it does.";

/** Parts of the application. */
export interface BoardAppOptions {
  /** Bull Board's own router. */
  board: Express;
  hosts: AllowedHosts;
  /** Returns a sentence about a Redis that cannot be used; undefined if it answered recently. */
  trouble(): string | undefined;
  clock: Clock;
  logger?: Logger;
}

/** Creates the application; it does not listen. */
export function createBoardApp({ board, hosts, trouble, clock, logger }: BoardAppOptions): Express {
  const app = express();
  app.disable("x-powered-by");
  app.use(securityHeaders());
  app.use((request, response, next) => {
    const refusal = requestRefusal(request.headers, hosts, request.path);
    if (refusal !== undefined) return sendProblem(response, 403, refusal);
    if (READING.has(request.method)) return next();
    response.set("Allow", "GET, HEAD");
    sendProblem(response, 405, "This board is read-only: it shows the queue and changes nothing.");
  });
  app.get("/healthz", (_request, response) => {
    const redis = trouble() === undefined ? "ready" : "away";
    response.set("Cache-Control", "no-store").json({ status: "ok", redis });
  });
  app.get("/readyz", (_request, response) => {
    const reason = trouble();
    const body =
      reason === undefined
        ? { ready: true, redis: "ready", reasons: [] }
        : { ready: false, redis: "away", reasons: [reason] };
    response
      .status(body.ready ? 200 : 503)
      .set("Cache-Control", "no-store")
      .json(body);
  });
  app.get("/", (_request, response) => response.redirect(BOARD_PATH));
  app.use(`${BOARD_PATH}/api`, (_request, response, next) => {
    response.set("Cache-Control", "no-store");
    const reason = trouble();
    if (reason !== undefined) return sendProblem(response, 503, reason);
    const late = clock.timeout(ANSWER_MS, () => sendProblem(response, 503, REDIS_AWAY));
    response.once("close", () => late.cancel());
    next();
  });
  app.use(BOARD_PATH, board);
  app.use((_request, response) =>
    sendProblem(response, 404, `Nothing is here; the board is at ${BOARD_PATH}.`),
  );
  app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) => {
    const status = statusOf(error);
    if (status === 500) logger?.error({ problem: messageOf(error) }, "A request could not be answered");
    sendProblem(response, status, "This request cannot be answered.");
  });
  return app;
}

/**
 * Returns the handler of the security headers. Bull Board's pages have inline styles; scripts, images and data may come only
 * from this server. HTTPS is not required: that is the job of a proxy in front.
 */
export function securityHeaders(): RequestHandler {
  return helmet({
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'self'"],
        baseUri: ["'self'"],
        formAction: ["'none'"],
        frameAncestors: ["'none'"],
        imgSrc: ["'self'", "data:"],
        objectSrc: ["'none'"],
        scriptSrc: ["'self'"],
        styleSrc: ["'self'", "'unsafe-inline'"],
      },
    },
    strictTransportSecurity: false,
    xFrameOptions: { action: "deny" },
  });
}

function statusOf(error: unknown): number {
  const status: unknown =
    typeof error === "object" && error !== null ? Reflect.get(error, "status") : undefined;
  return typeof status === "number" && status >= 400 && status < 500 ? status : 500;
}

// Errors over HTTP: RFC 9457 problem documents.

/**
 * Answers with a problem document, unless the answer has begun: its client may read it slowly. `detail` is one sentence that
 * says what to do. `error` repeats it, because Bull Board's pages show that field.
 */
function sendProblem(response: Response, status: number, detail: string): void {
  if (response.headersSent) return;
  const problem = { type: "about:blank", title: STATUS_CODES[status], status, detail, error: detail };
  response
    .status(status)
    .set("Cache-Control", "no-store")
    .type("application/problem+json")
    .send(JSON.stringify(problem));
}

// Access to a server without login: pure decisions on a request's headers.
//
// A page of another site can make a browser send requests to loopback. With a name that it points at 127.0.0.1 (DNS
// rebinding) it can read the answers. The fetch metadata and Origin reveal the first, the Host header the second.

/** Accepted names in Host headers; `any` if the operator opened the server to a network. */
export type AllowedHosts = readonly string[] | "any";

/** Routes that probes and load balancers call by an address. It cannot be named beforehand, and DNS rebinding needs a name. */
const PROBED: ReadonlySet<string> = new Set(["/healthz", "/readyz"]);
const HOST_HEADER = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i;
const LOOPBACK_ADDRESS = /^127(?:\.\d{1,3}){3}$/;
const OWN_SITES: ReadonlySet<string> = new Set(["same-origin", "none"]);

/** Returns whether an address or name can only be reached from this machine. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[|\]$/g, "");
  return name === "localhost" || name === "::1" || LOOPBACK_ADDRESS.test(name);
}

/**
 * Returns the hosts that a server bound to `host` accepts: loopback names and `named`; any if it is open and none is named.
 * Throws `invalid_config` for a name that no Host header can have.
 */
export function allowedHosts(host: string, named: readonly string[] = []): AllowedHosts {
  const wrong = named.find((name) => !isHostName(name));
  if (wrong !== undefined) {
    const sentence = `${quoted(wrong)} is no host name: name the host alone, without scheme and port, e.g. board.internal.`;
    throw new SubagentError("invalid_config", sentence);
  }
  return isLoopback(host) || named.length > 0 ? named.map((name) => name.toLowerCase()) : "any";
}

/**
 * Returns the refusal of a request for `path` as a sentence; undefined if it may pass. Loopback names may always pass, and
 * addresses to the health routes.
 */
export function requestRefusal(
  headers: IncomingHttpHeaders,
  hosts: AllowedHosts,
  path: string,
): string | undefined {
  const { host = "", origin } = headers;
  const name = HOST_HEADER.exec(host)?.[1];
  if (name === undefined)
    return "The Host header is missing or malformed: send the name of this server, e.g. Host: localhost.";
  const isProbe = PROBED.has(path) && isAddress(name.replace(/^\[|\]$/g, ""));
  if (hosts !== "any" && !isProbe && !isLoopback(name) && !hosts.includes(name.toLowerCase())) {
    return "This server does not answer to that name: open it as http://127.0.0.1 or http://localhost, or start it with --host-name <name>.";
  }
  const foreign = origin !== undefined && hostOf(origin) !== host.toLowerCase();
  if (foreign || !isOwnFetch(headers))
    return "Requests made by pages of other sites are not answered: send them from a program, or from a page of this server.";
  return undefined;
}

/** Returns whether a request comes from our own pages or from a link: the other site cannot read a page that a link opens. */
function isOwnFetch(headers: IncomingHttpHeaders): boolean {
  const site = headers["sec-fetch-site"];
  if (site === undefined || (typeof site === "string" && OWN_SITES.has(site))) return true;
  return headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document";
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}
