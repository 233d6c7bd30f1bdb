/**
 * The HTTP application: guards first, then routes without a key, then routes with a key. Owns no socket and no connection.
 *
 * 1. A request passes the guard for Host and Origin before any route sees it.
 * 2. Interfaces mounted next to the API get the same guards, and the key's tenant from `principalOf`.
 */
import express, {
  type Express,
  type NextFunction,
  type Request,
  type RequestHandler,
  type Response,
} from "express";
import { SubagentError } from "../../shared/errors.ts";
import { type AllowedHosts, requestRefusal, securityHeaders } from "../board/app.ts";
import type { Auth, Mount, MountParts } from "./mount.ts";
import { logProblems, methodRefusal, READING, sendProblem, showToPeople } from "./problem.ts";
import { type Route, routerOf } from "./route.ts";

/** Parts of the application. */
export interface ApiAppOptions {
  auth: Auth;
  hosts: AllowedHosts;
  /** Counts every request, before the guards. */
  count: RequestHandler;
  /** Routes without a key: health, the document, the live page. */
  open: RequestHandler;
  routes: readonly Route[];
  mounts: readonly Mount[];
  parts: MountParts;
}

/** Creates the application; it does not listen. */
export function createApiApp({ auth, hosts, count, open, routes, mounts, parts }: ApiAppOptions): Express {
  const app = express();
  app.disable("x-powered-by");
  app.disable("etag");
  // Flat query strings: a client's text does not become nested objects.
  app.set("query parser", "simple");
  app.use((_request, response, next) => {
    logProblems(response, parts.logger);
    next();
  });
  app.use(count);
  app.use(securityHeaders());
  app.use((request, response, next) => {
    const refusal = requestRefusal(request.headers, hosts, request.path);
    if (refusal === undefined) return next();
    sendProblem(response, new SubagentError("forbidden", refusal));
  });
  app.use(open);
  for (const { path, scope, isForBrowsers, handler } of mounts) {
    if (isForBrowsers) app.use(path, forPages);
    app.use(path, auth.require(scope, isForBrowsers), handler(parts));
  }
  app.use(routerOf(routes, parts));
  app.use((request, response) => sendProblem(response, unknownRoute(request, response, routes)));
  app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) =>
    sendProblem(response, error),
  );
  return app;
}

const forPages: RequestHandler = (_request, response, next) => {
  showToPeople(response);
  next();
};

/** Returns the refusal of a request that no route answers. */
function unknownRoute(request: Request, response: Response, routes: readonly Route[]): SubagentError {
  const allowed = routes
    .filter((row) => patternOf(row.path).test(request.path))
    .flatMap(({ method }) => (method === "get" ? READING : [method.toUpperCase()]));
  if (allowed.length > 0) return methodRefusal(request, response, allowed);
  return new SubagentError("not_found", "There is nothing here: /docs shows what this API answers.");
}

function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replace(/\{path\}/, ".+").replace(/\{\w+\}/g, "[^/]+")}/?$`);
}
