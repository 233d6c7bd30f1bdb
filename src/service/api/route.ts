/**
 * A route of the API: one row has its path, its scope, the shapes of its input and output, and its handler. The router and
 * the OpenAPI document are made from the same rows.
 */
import { type Request, type RequestHandler, type Response, Router } from "express";
import { z } from "zod";
import { internalsOf } from "../../producer/client.ts";
import type { ClientResources } from "../../producer/client-resources.ts";
import { nullsLeftOut, readInput } from "../../producer/input.ts";
import { createParent, type Parent, type ParentOptions } from "../../producer/parent.ts";
import { SubagentError } from "../../shared/errors.ts";
import { type AnswerSignals, answerSignals, leftClientsKnown, whenSent } from "../../shared/http-server.ts";
import { ParentName, RequestKey } from "../../shared/protocol/ids.ts";
import type { ParentAddress } from "../../shared/protocol/keys.ts";
import type { Scope } from "../../shared/redis/api-keys.ts";
import { requestTraceparent } from "../../shared/telemetry.ts";
import { principalOf } from "./auth.ts";
import { readBody } from "./body.ts";
import { sendJson } from "./json-answer.ts";
import type { Principal, RouteParts } from "./mount.ts";
import { sendProblem } from "./problem.ts";

/** One request on its route; `query` and `body` are checked. */
export interface RouteCall<Q = unknown, B = unknown> extends RouteParts, AnswerSignals {
  readonly request: Request;
  readonly response: Response;
  readonly principal: Principal;
  readonly query: Q;
  readonly body: B;
  /** Returns a part of the path by its name. */
  param(name: string): string;
  /** Creates the parent that the path names, of the key's tenant; `profile`: its options. */
  parent(profile?: Partial<Omit<ParentOptions, "parentId" | "tenant" | "client">>): Parent;
  /** Returns the connected client, for work that is no call of a parent. */
  open(): Promise<ClientResources>;
  /** Returns the address of the parent that the path names; its id is checked. */
  address(): ParentAddress;
  /** The `Idempotency-Key` header; undefined without one. */
  readonly idempotencyKey: string | undefined;
  /** The span that the request comes from; empty without one. */
  traced(): Promise<{ traceparent?: string }>;
}

/** The answer of a route; `streamed`: the handler has written it itself. `sent` runs at its end; `isWhole`: all was sent. */
export type RouteAnswer =
  | { status: number; body: unknown; location?: string; sent?: (isWhole: boolean) => void }
  | "streamed";

/** The documentation of one status. */
export interface RouteResponse {
  says: string;
  /** Schema of a JSON answer; undefined: no body, or that of `media`. */
  schema?: z.ZodType;
  /** Another media type than JSON, in addition to JSON or alone. */
  media?: string;
}

/** One row. Paths are written as in OpenAPI: `/v1/parents/{parent}`; `{path}` at the end matches the rest. */
export interface Route {
  readonly method: "get" | "post" | "put" | "delete";
  readonly path: string;
  /** Name of the operation in generated clients. */
  readonly id: string;
  readonly says: string;
  readonly tag: string;
  readonly scope: Scope;
  readonly query?: z.ZodObject;
  readonly body?: z.ZodType;
  /** Whether its body may have files and images, and so be large. */
  readonly takesFiles?: boolean;
  /** Whether `Idempotency-Key` makes the request repeatable. */
  readonly isRepeatable?: boolean;
  readonly answers: Readonly<Record<number, RouteResponse>>;
  handle(call: RouteCall): Promise<RouteAnswer>;
}

interface TypedRoute<Q extends z.ZodObject, B extends z.ZodType>
  extends Omit<Route, "query" | "body" | "handle"> {
  readonly query?: Q;
  readonly body?: B;
  handle(call: RouteCall<z.output<Q>, z.output<B>>): Promise<RouteAnswer>;
}

const NOTHING = z.strictObject({});
const OwnerInPath = z.strictObject({ parent: ParentName });

/** Returns a row whose handler gets checked input, typed by its schemas. */
export function route<Q extends z.ZodObject = typeof NOTHING, B extends z.ZodType = typeof NOTHING>(
  row: TypedRoute<Q, B>,
): Route {
  const { query, body, handle } = row;
  return {
    ...row,
    handle: async (call) =>
      handle({
        ...call,
        query: readInput(query ?? NOTHING, call.query, "query") as z.output<Q>,
        body: readInput(nullsLeftOut(body ?? NOTHING), call.body, "body") as z.output<B>,
      }),
  };
}

/** Creates a router with every row, each behind the guard of its scope. */
export function routerOf(routes: readonly Route[], parts: RouteParts): Router {
  const router = Router();
  const [small, large] = [readBody("small"), readBody("large")];
  for (const row of routes) {
    const handler: RequestHandler = (request, response) => void answer(row, parts, request, response);
    router[row.method](
      pathInExpress(row.path),
      parts.auth.require(row.scope),
      ...(row.takesFiles ? large : small),
      handler,
    );
  }
  return router;
}

/** Converts `/a/{b}` to express syntax; `{path}` matches the rest. */
function pathInExpress(path: string): string {
  return path.replace(/\{path\}$/, "*path").replace(/\{(\w+)\}/g, ":$1");
}

async function answer(row: Route, parts: RouteParts, request: Request, response: Response): Promise<void> {
  const signals = answerSignals(request, response);
  try {
    const answered = await row.handle({ ...callOf(parts, request, response), ...signals });
    if (answered === "streamed") return;
    const { status, body, location, sent } = answered;
    if (sent) whenSent(response, sent);
    await parts.auth.requireStillValid(request);
    if (sent) await leftClientsKnown();
    if (response.closed) return;
    if (location !== undefined) response.set("Location", location);
    sendJson(request, response.status(status), body);
  } catch (error) {
    if (response.closed) return;
    sendProblem(response, error);
  }
}

function callOf(
  { client, ...parts }: RouteParts,
  request: Request,
  response: Response,
): Omit<RouteCall, keyof AnswerSignals> {
  const principal = principalOf(request);
  const param = (name: string): string => {
    const value: string | string[] | undefined = request.params[name];
    return Array.isArray(value) ? value.join("/") : (value ?? "");
  };
  const parent: RouteCall["parent"] = (profile = {}) =>
    createParent({
      ...profile,
      client,
      tenant: principal.tenant,
      parentId: readInput(OwnerInPath, { parent: param("parent") }, "path").parent,
    });
  return {
    ...parts,
    client,
    request,
    response,
    principal,
    query: request.query,
    body: request.body ?? {},
    param,
    parent,
    open: () => internalsOf(client).open(),
    address() {
      const { tenant, parentId } = parent();
      return { tenant, parentId };
    },
    idempotencyKey: idempotencyKeyOf(request),
    traced: () => requestTraceparent(request.get("traceparent")),
  };
}

/** Returns the `Idempotency-Key`, in quotes as the draft says, or bare. Throws `invalid_input`. */
function idempotencyKeyOf(request: Request): string | undefined {
  const text = request.get("Idempotency-Key");
  if (text === undefined) return undefined;
  const key = RequestKey.safeParse(/^"(.*)"$/.exec(text.trim())?.[1] ?? text.trim());
  if (key.success) return key.data;
  throw new SubagentError(
    "invalid_input",
    "Idempotency-Key cannot be used: write 1 to 128 printable ASCII characters without spaces.",
  );
}
