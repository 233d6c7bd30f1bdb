/** The routes that need no key: liveness, readiness, the OpenAPI document and the live page. */
import { type Response, Router } from "express";
import { type Client, internalsOf } from "../../producer/client.ts";
import { documentPage } from "./document-page.ts";
import { livePageRouter, PAGE_PATHS } from "./live-page.ts";
import { openApiOf } from "./openapi.ts";
import { methodRefusal, READING, sendProblem } from "./problem.ts";
import type { Route } from "./route.ts";
import { type SharedAnswer, sendShared, sharedAnswer } from "./shared-answer.ts";

/** Creates the router of these routes. */
export function openRouter(client: Client, routes: readonly Route[]): Router {
  const router = Router();
  let made: { document: SharedAnswer; page: SharedAnswer } | undefined;
  const documents = () => {
    if (made) return made;
    const document = openApiOf(routes);
    made = {
      document: sharedAnswer(JSON.stringify(document, undefined, 2)),
      page: sharedAnswer(documentPage(routes, document)),
    };
    return made;
  };
  const ready = readiness(client);
  router.get("/healthz", (_request, response) => {
    response.set("Cache-Control", "no-store").json({ status: "ok" });
  });
  router.get("/readyz", (_request, response) => void ready(response));
  router.get("/openapi.json", (_request, response) => {
    sendShared(response.type("application/json"), documents().document);
  });
  router.use(livePageRouter());
  router.get("/docs", ({ path }, response) => {
    // The page names its document relative to its own address, so that both may lie behind a proxy's prefix.
    if (path.endsWith("/")) response.redirect("../docs");
    else sendShared(response.type("html"), documents().page);
  });
  router.use((request, response, next) => {
    // Express itself answers OPTIONS.
    if (!PATHS.has(request.path) || request.method === "OPTIONS") return next();
    sendProblem(response, methodRefusal(request, response, READING));
  });
  return router;
}

const PATHS: ReadonlySet<string> = new Set(["/healthz", "/readyz", "/openapi.json", "/docs", ...PAGE_PATHS]);

const REDIS_AWAY = "Redis does not answer";

/**
 * Returns the route of readiness; it sends a command to Redis, one at a time for all who ask meanwhile. The route needs no key,
 * so it does not name the address; the log does.
 */
function readiness(client: Client): (response: Response) => Promise<void> {
  let asking: Promise<boolean> | undefined;
  const ask = () => {
    asking ??= doesRedisAnswer(client)
      .catch(() => false)
      .finally(() => {
        asking = undefined;
      });
    return asking;
  };
  return async (response) => {
    const isReady = await ask();
    response
      .status(isReady ? 200 : 503)
      .set("Cache-Control", "no-store")
      .json({ ready: isReady, redis: isReady ? "ready" : "away", reasons: isReady ? [] : [REDIS_AWAY] });
  };
}

async function doesRedisAnswer(client: Client): Promise<true> {
  const { read, redis } = await internalsOf(client).open();
  await read(() => redis.time());
  return true;
}
