/**
 * The offline model: a server that speaks the Anthropic Messages API and needs no key. It answers by rule, with real calls
 * of the offered tools, or plays a scenario. It is a stand-in for tests, benchmarks and use without a key, not an LLM.
 *
 * Only composes the parts: listener, ledger, prompt cache and script player each own their state.
 *
 * Invariants:
 * 1. `start` and `stop` are idempotent; a stopped server may be started again and keeps its port.
 * 2. `stop` resolves when all connections are closed and all calls in progress have their ledger entries.
 * 3. Control routes (`/offline/…`) and the methods here change the same state.
 */
import { appendFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { z } from "zod";
import { createPromptCache } from "./cache.ts";
import { type Exchange, OfflineModelError, openExchange, sendError } from "./exchange.ts";
import { createLedger, type LedgerEntry } from "./ledger.ts";
import { createSemaphore } from "./messages.ts";
import { type RouteParts, serve } from "./routes.ts";
import { parseScenario, type Scenario } from "./scenario.ts";
import { createScriptPlayer } from "./script-player.ts";

export { OfflineModelError } from "./exchange.ts";
export type { LedgerEntry } from "./ledger.ts";
export { Scenario } from "./scenario.ts";
export type { TokenUsage } from "./wire.ts";

/** Options of the offline model. */
export interface OfflineModelOptions {
  /** Address to listen on. Default `127.0.0.1`. */
  host?: string;
  /** Port; 0: a free one. Default 0. */
  port?: number;
  /** Time before the first byte of every answer, in milliseconds. Default 0. */
  latencyMs?: number;
  /** Maximum calls answered at a time; others wait, as at a backend that serialises. Default: no limit. */
  parallel?: number;
  /** Scenario to play. Default: answer by rule. */
  scenario?: Scenario;
  /** File to which all ledger entries are appended, one JSON object a line. Its directory must exist. */
  ledgerPath?: string;
}

const Options: z.ZodType<OfflineModelOptions> = z.strictObject({
  host: z.string().min(1).optional(),
  port: z.int().min(0).max(65_535).optional(),
  latencyMs: z.number().min(0).optional(),
  parallel: z.int().min(1).optional(),
  scenario: z.custom<Scenario>().optional(),
  ledgerPath: z.string().min(1).optional(),
});

/** A running or stopped offline model. */
export interface OfflineModel {
  /** Starts to listen. Rejects with `OfflineModelError` `cannot_listen` or `ledger_unwritable`. */
  start(): Promise<void>;
  /** Closes all connections at once, including idle ones and calls in progress. */
  stop(): Promise<void>;
  /** `http://host:port`; throws `OfflineModelError` `not_started` before the first `start`. */
  readonly url: string;
  /** Number of requests in progress. */
  readonly inFlight: number;
  /** Ledger entries of the ended calls, oldest first; at most the newest 100,000. */
  readonly ledger: readonly LedgerEntry[];
  /** Plays another scenario from the next call on; `undefined` answers by rule. Throws `OfflineModelError` `invalid_scenario`. */
  setScenario(scenario: Scenario | undefined): void;
}

/**
 * Creates an offline model, which is idle until `start()`. Throws `OfflineModelError`: `invalid_config` names all invalid
 * options, `invalid_scenario` all problems of the scenario.
 */
export function createOfflineModel(options: OfflineModelOptions = {}): OfflineModel {
  requireUsable(options);
  const { host = "127.0.0.1", port = 0, ledgerPath, latencyMs = 0, parallel } = options;
  const ledger = createLedger(ledgerPath);
  const player = createScriptPlayer();
  const parts: RouteParts = {
    ledger,
    player,
    cache: createPromptCache(),
    latencyMs,
    semaphore: createSemaphore(parallel),
    inFlight: () => listener.inFlight,
  };
  const listener = createListener({
    host,
    port,
    prepare: async () => openLedgerFile(ledgerPath),
    serve: (exchange) => serve(exchange, parts),
  });
  const setScenario = (scenario: Scenario | undefined): void =>
    player.setScripts(scenario === undefined ? [] : parseScenario(scenario));
  setScenario(options.scenario);

  return {
    start: () => listener.start(),
    stop: () => listener.stop(),
    setScenario,
    get url() {
      return urlOf(host, listener.port);
    },
    get inFlight() {
      return listener.inFlight;
    },
    get ledger() {
      return ledger.entries;
    },
  };
}

function requireUsable(options: OfflineModelOptions): void {
  const { error } = Options.safeParse(options);
  if (!error) return;
  const problems = error.issues.map(({ path, message }) => [...path, message].join(": "));
  throw new OfflineModelError("invalid_config", `The offline model cannot be made: ${problems.join("; ")}.`);
}

function urlOf(host: string, port: number): string {
  if (port === 0) {
    throw new OfflineModelError("not_started", "The offline model has no address yet: call start() first.");
  }
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function openLedgerFile(path: string | undefined): void {
  if (path === undefined) return;
  try {
    appendFileSync(path, "");
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const sentence = `The ledger cannot be written (${why}): name another file.`;
    throw new OfflineModelError("ledger_unwritable", sentence, { cause });
  }
}

// The listening socket.
//
// Owns the HTTP server, its port and the exchanges in progress. `routes.ts` answers each exchange.
//
// Invariants:
// 1. `start` and `stop` are idempotent; after a stop it may be started again, on the same port.
// 2. `stop` resolves when all connections are closed and all exchanges in progress have ended.

/** Options of the listener. */
interface ListenerOptions {
  host: string;
  /** 0: a free one. */
  port: number;
  /** Runs before each start; if it rejects, the socket stays closed. */
  prepare(): Promise<void>;
  /** Answers one exchange. */
  serve(exchange: Exchange): Promise<void>;
}

/** The listening socket. */
interface Listener {
  start(): Promise<void>;
  stop(): Promise<void>;
  /** The port; before the first `start` it is 0 if a free one was requested. */
  readonly port: number;
  /** Number of exchanges in progress. */
  readonly inFlight: number;
}

/** Creates a closed listener. */
function createListener({ host, port: wanted, prepare, serve }: ListenerOptions): Listener {
  const underWay = new Set<Promise<void>>();
  const server = createExchangeServer(serve, underWay);
  let port = wanted;
  let running: Promise<void> | undefined;
  let stopping: Promise<void> = Promise.resolve();

  const open = async (): Promise<void> => {
    await stopping;
    await prepare();
    port = await listen(server, host, port);
  };
  const begin = (): Promise<void> => {
    const begun = open();
    running = begun;
    begun.catch(() => {
      // A start after a stop may be under way in its place.
      if (running === begun) running = undefined;
    });
    return begun;
  };
  const close = async (opened: Promise<void>): Promise<void> => {
    const listens = await opened.then(
      () => true,
      () => false,
    );
    if (listens) await closeNow(server);
    await Promise.all(underWay);
  };

  return {
    start() {
      return running ?? begin();
    },
    stop() {
      if (running !== undefined) stopping = close(running);
      running = undefined;
      return stopping;
    },
    get port() {
      return port;
    },
    get inFlight() {
      return underWay.size;
    },
  };
}

function createExchangeServer(serve: ListenerOptions["serve"], underWay: Set<Promise<void>>): Server {
  let requests = 0;
  const server = createServer((request, response) => {
    requests += 1;
    const exchange = openExchange(request, response, `req_offline${String(requests).padStart(8, "0")}`);
    const begun = Promise.resolve().then(() => serve(exchange));
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
  // A connection that the system cannot give, for want of memory or a descriptor, is no reason to end the process.
  server.on("error", () => {});
  server.keepAliveTimeout = 0;
  server.requestTimeout = 0;
  return server;
}

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const fail = (cause: Error): void => {
      const sentence = `The offline model cannot listen on ${host}:${port} (${cause.message}): choose another address or port.`;
      reject(new OfflineModelError("cannot_listen", sentence, { cause }));
    };
    server.once("error", fail);
    server.listen(port, host, () => {
      server.off("error", fail);
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : port);
    });
  });
}

function closeNow(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
