/**
 * The board's HTTP application: guards first, then health, then Bull Board. Owns no socket and no connection.
 *
 * 1. A request passes the guards for Host, origin and method before anything else looks at it.
 * 2. Nothing waits for a Redis that is away: the data routes answer 503 at once, or after {@link ANSWER_MS}.
 */
import express, { type Express, type NextFunction, type Request, type Response } from "express";
import helmet from "helmet";
import type { Clock } from "../../shared/clock.ts";
import { messageOf } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import { sendProblem } from "./problem.ts";
import { type AllowedHosts, refusalOf } from "./request-guard.ts";

/** Where Bull Board lies. */
export const BOARD_PATH = "/admin/queues";
/** A data route that has no answer by then is answered for. */
const ANSWER_MS = 5_000;
const READING: ReadonlySet<string> = new Set(["GET", "HEAD"]);
const REDIS_AWAY = "Redis does not answer; the board shows the queue again when it does.";

/** What the application is made of. */
export interface BoardAppOptions {
  /** Bull Board's own router. */
  board: Express;
  hosts: AllowedHosts;
  /** Whether Redis answered a moment ago. */
  isReady(): boolean;
  clock: Clock;
  logger?: Logger;
}

/** The application; nothing listens yet. */
export function createBoardApp({ board, hosts, isReady, clock, logger }: BoardAppOptions): Express {
  const app = express();
  app.disable("x-powered-by");
  app.use(securityHeaders());
  app.use((request, response, next) => {
    const refusal = refusalOf(request.headers, hosts);
    if (refusal !== undefined) return sendProblem(response, 403, refusal);
    if (READING.has(request.method)) return next();
    response.set("Allow", "GET, HEAD");
    sendProblem(response, 405, "This board is read-only: it shows the queue and changes nothing.");
  });
  app.get("/healthz", (_request, response) => {
    response.set("Cache-Control", "no-store").json({ status: "ok", redis: isReady() ? "ready" : "away" });
  });
  app.get("/readyz", (_request, response) => {
    const isThere = isReady();
    const body = { ready: isThere, redis: isThere ? "ready" : "away", reasons: isThere ? [] : [REDIS_AWAY] };
    response
      .status(isThere ? 200 : 503)
      .set("Cache-Control", "no-store")
      .json(body);
  });
  app.get("/", (_request, response) => response.redirect(BOARD_PATH));
  app.use(`${BOARD_PATH}/api`, (_request, response, next) => {
    response.set("Cache-Control", "no-store");
    if (!isReady()) return sendProblem(response, 503, REDIS_AWAY);
    const late = clock.timeout(ANSWER_MS, () => sendProblem(response, 503, REDIS_AWAY));
    response.once("close", () => late.cancel());
    next();
  });
  app.use(BOARD_PATH, board);
  app.use((_request, response) =>
    sendProblem(response, 404, `Nothing is here; the board is at ${BOARD_PATH}.`),
  );
  app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) => {
    logger?.debug({ problem: messageOf(error) }, "Board request failed");
    if (!response.headersSent) sendProblem(response, statusOf(error), "This request cannot be answered.");
  });
  return app;
}

/**
 * Bull Board's pages carry inline styles; scripts, images and data come from here alone. No HTTPS is demanded: the
 * board is a loopback address.
 */
function securityHeaders() {
  return helmet({
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'self'"],
        baseUri: ["'self'"],
        fontSrc: ["'self'"],
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
