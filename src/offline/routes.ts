/** The routes of the server: the handler of each method and path. */

import { fingerprint } from "./cache.ts";
import {
  type ApiError,
  type Exchange,
  invalidRequest,
  OfflineModelError,
  readBody,
  sendError,
  sendJson,
} from "./exchange.ts";
import { type MessagesParts, serveMessages } from "./messages.ts";
import { parseScenario, type Script } from "./scenario.ts";
import { checkCountTokens, parseJson } from "./validation.ts";

/** The parts that the routes use. */
export interface RouteParts extends MessagesParts {
  /** Returns the number of requests in progress, including the current one. */
  inFlight(): number;
}

type Handler = (exchange: Exchange, parts: RouteParts, id: string) => Promise<void> | void;

const ROUTES: readonly { method: string; path: RegExp; handle: Handler }[] = [
  { method: "POST", path: /^\/v1\/messages$/, handle: serveMessages },
  { method: "POST", path: /^\/v1\/messages\/count_tokens$/, handle: countTokens },
  { method: "GET", path: /^\/v1\/models$/, handle: (exchange) => sendJson(exchange, 200, modelPage()) },
  {
    method: "GET",
    path: /^\/v1\/models\/([^/]+)$/,
    handle: (exchange, _, id) => sendJson(exchange, 200, modelInfo(id)),
  },
  { method: "GET", path: /^\/healthz$/, handle: health },
  {
    method: "GET",
    path: /^\/offline\/ledger$/,
    handle: (exchange, { ledger }) => sendJson(exchange, 200, { entries: ledger.entries }),
  },
  { method: "DELETE", path: /^\/offline\/ledger$/, handle: clearLedger },
  { method: "POST", path: /^\/offline\/scenario$/, handle: setScenario },
];

/** Answers one exchange. No client input makes it reject. */
export async function serve(exchange: Exchange, parts: RouteParts): Promise<void> {
  const method = exchange.request.method ?? "GET";
  const path = (exchange.request.url ?? "/").split("?")[0] ?? "/";
  const known = ROUTES.filter((route) => route.path.test(path));
  const route = known.find((candidate) => candidate.method === method);
  if (route === undefined) return refuse(exchange, notServed(method, path, known.length > 0));
  await route.handle(exchange, parts, decode(route.path.exec(path)?.[1] ?? ""));
}

function notServed(method: string, path: string, known: boolean): ApiError {
  return known
    ? { status: 405, type: "invalid_request_error", message: `Method ${method} is not allowed for ${path}` }
    : { status: 404, type: "not_found_error", message: `Not found: ${path}` };
}

async function refuse(exchange: Exchange, error: ApiError): Promise<void> {
  await readBody(exchange.request);
  sendError(exchange, error);
}

async function countTokens(exchange: Exchange): Promise<void> {
  const text = await readText(exchange);
  if (text === undefined) return;
  const checked = checkCountTokens(text);
  if (checked.status === "invalid") return sendError(exchange, invalidRequest(checked.problem));
  sendJson(exchange, 200, { input_tokens: fingerprint(checked.request).inputTokens });
}

function health(exchange: Exchange, { inFlight }: RouteParts): void {
  sendJson(exchange, 200, {
    status: "ok",
    model: OFFLINE_MODEL_ID,
    notice: OFFLINE_NOTICE,
    in_flight: inFlight() - 1,
  });
}

function clearLedger(exchange: Exchange, { ledger }: RouteParts): void {
  ledger.clear();
  sendJson(exchange, 200, { status: "cleared" });
}

/** Sets the scenario in the body; `null` answers by rule again. */
async function setScenario(exchange: Exchange, { player }: RouteParts): Promise<void> {
  const text = await readText(exchange);
  if (text === undefined) return;
  const json = parseJson(text);
  if (json.status === "invalid") return sendError(exchange, invalidRequest(json.problem));
  const scripts = scriptsOf(json.request);
  if (scripts instanceof OfflineModelError) return sendError(exchange, invalidRequest(scripts.message));
  player.setScripts(scripts);
  sendJson(exchange, 200, { status: "set", scripts: scripts.length });
}

function scriptsOf(scenario: unknown): Script[] | OfflineModelError {
  try {
    return scenario === null ? [] : parseScenario(scenario);
  } catch (error) {
    if (error instanceof OfflineModelError) return error;
    throw error;
  }
}

async function readText(exchange: Exchange): Promise<string | undefined> {
  const body = await readBody(exchange.request);
  if (body.status === "read") return body.text;
  if (body.status === "too_large")
    sendError(exchange, { status: 413, type: "request_too_large", message: "The body is too large" });
  return undefined;
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

// The models that the server lists; it also answers for any other id. Pure.

/** The offline model's own model id. */
const OFFLINE_MODEL_ID = "offline-1";

/** One sentence about this server, for banners. */
const OFFLINE_NOTICE =
  "Offline model: a rule-based stand-in that speaks the Messages API. It is not a large language model.";

/** Returns the description of a model id; the server treats all ids the same. */
function modelInfo(id: string) {
  return {
    type: "model",
    id,
    display_name: `Offline model ${id === OFFLINE_MODEL_ID ? "1" : `answering as ${id}`} (rule-based, not an LLM)`,
    created_at: "1970-01-01T00:00:00Z",
    capabilities: null,
    deprecated_at: null,
    retires_at: null,
    lifecycle: "active",
    line: null,
    max_input_tokens: 1_000_000,
    max_tokens: 128_000,
  } as const;
}

/** Returns the page of `GET /v1/models`. */
function modelPage() {
  return {
    data: [modelInfo(OFFLINE_MODEL_ID)],
    has_more: false,
    first_id: OFFLINE_MODEL_ID,
    last_id: OFFLINE_MODEL_ID,
  };
}
