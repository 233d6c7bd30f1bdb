/**
 * The offline model: a server that speaks the Anthropic Messages API and needs no key. It answers by rule, really
 * driving the tools it is offered, or plays a scenario. It is a stand-in for tests, benchmarks and keyless use, not an LLM.
 *
 * Owns: the listening socket and the exchanges under way. Its neighbours own the ledger, the prompt cache and the scripts.
 *
 * Invariants:
 * 1. `start` and `stop` are idempotent; a server that was stopped may be started again and keeps its port.
 * 2. `stop` resolves when every connection is closed and every call under way stands in the ledger.
 * 3. Control routes (`/offline/…`) and the methods here change the same state.
 */
import { appendFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { OfflineModelError } from "./api-error.ts";
import { openExchange, sendError } from "./exchange.ts";
import { createLedger, type LedgerEntry } from "./ledger.ts";
import { createPromptCache } from "./prompt-cache.ts";
import { type RouteParts, serve } from "./routes.ts";
import { parseScenario, type Scenario } from "./scenario.ts";
import { createScriptPlayer } from "./script-player.ts";

export { OfflineModelError } from "./api-error.ts";
export type { LedgerEntry } from "./ledger.ts";
export { OFFLINE_MODEL_ID, OFFLINE_NOTICE } from "./model-list.ts";
export { Scenario } from "./scenario.ts";

/** Options of the offline model. */
export interface OfflineModelOptions {
  /** Address to listen on. Default `127.0.0.1`. */
  host?: string;
  /** Port; 0 takes a free one. Default 0. */
  port?: number;
  /** Time before the first byte of every answer, in milliseconds. Default 0. */
  latencyMs?: number;
  /** What to play; absent = answer by rule. */
  scenario?: Scenario;
  /** File that every ledger entry is appended to, one JSON object a line. Its directory must exist. */
  ledgerPath?: string;
}

/** A running or stopped offline model. */
export interface OfflineModel {
  /** Listens. Rejects with `OfflineModelError` `cannot_listen` or `ledger_unwritable`. */
  start(): Promise<void>;
  /** Closes everything at once, keep-alive connections and calls under way included. */
  stop(): Promise<void>;
  /** `http://host:port`; throws `OfflineModelError` `not_started` before the first `start`. */
  readonly url: string;
  /** Requests under way. */
  readonly inFlight: number;
  /** What was answered, oldest first; the newest 100,000 at most. */
  readonly ledger: readonly LedgerEntry[];
  /** Plays another scenario from the next call on; `undefined` answers by rule. Throws `OfflineModelError` `invalid_scenario`. */
  setScenario(scenario: Scenario | undefined): void;
}

/** Creates an offline model that does nothing until `start()`. Throws `OfflineModelError` `invalid_scenario`. */
export function createOfflineModel(options: OfflineModelOptions = {}): OfflineModel {
  const { host = "127.0.0.1", ledgerPath, latencyMs = 0 } = options;
  const underWay = new Set<Promise<void>>();
  const parts = {
    ledger: createLedger(ledgerPath),
    cache: createPromptCache(),
    player: createScriptPlayer(),
    latencyMs,
    inFlight: () => underWay.size,
  };
  const server = createExchangeServer(parts, underWay);
  let port = options.port ?? 0;
  let running: Promise<void> | undefined;
  let stopping: Promise<void> = Promise.resolve();

  const model: OfflineModel = {
    start() {
      running ??= stopping
        .then(() => openLedgerFile(ledgerPath))
        .then(() => listen(server, host, port))
        .then((bound) => {
          port = bound;
        })
        .catch((error: unknown) => {
          running = undefined;
          throw error;
        });
      return running;
    },
    stop() {
      if (running === undefined) return stopping;
      const closed = running.then(
        () => close(server),
        () => undefined,
      );
      stopping = closed.then(() => Promise.all(underWay)).then(() => undefined);
      running = undefined;
      return stopping;
    },
    get url() {
      if (port === 0)
        throw new OfflineModelError(
          "not_started",
          "The offline model has no address yet: call start() first.",
        );
      return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
    },
    get inFlight() {
      return underWay.size;
    },
    get ledger() {
      return parts.ledger.entries;
    },
    setScenario(scenario) {
      parts.player.setScripts(scenario === undefined ? [] : parseScenario(scenario));
    },
  };
  model.setScenario(options.scenario);
  return model;
}

function createExchangeServer(parts: RouteParts, underWay: Set<Promise<void>>): Server {
  let requests = 0;
  const server = createServer((request, response) => {
    requests += 1;
    const exchange = openExchange(request, response, `req_offline${String(requests).padStart(8, "0")}`);
    const begun = Promise.resolve().then(() => serve(exchange, parts));
    const serving = begun.catch((error: unknown) => {
      if (response.headersSent) throw error;
      sendError(exchange, {
        status: 500,
        type: "api_error",
        message: `The offline model failed: ${String(error)}`,
      });
    });
    underWay.add(serving);
    serving.finally(() => underWay.delete(serving));
  });
  server.keepAliveTimeout = 0;
  server.requestTimeout = 0;
  return server;
}

async function openLedgerFile(path: string | undefined): Promise<void> {
  if (path === undefined) return;
  try {
    appendFileSync(path, "");
  } catch (cause) {
    throw new OfflineModelError("ledger_unwritable", `The ledger ${path} cannot be appended to.`, { cause });
  }
}

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const fail = (cause: Error): void => {
      reject(
        new OfflineModelError(
          "cannot_listen",
          `The offline model cannot listen on ${host}:${port}: ${cause.message}`,
          { cause },
        ),
      );
    };
    server.once("error", fail);
    server.listen(port, host, () => {
      server.off("error", fail);
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : port);
    });
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
