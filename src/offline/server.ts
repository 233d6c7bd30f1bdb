/**
 * The offline model: a server that speaks the Anthropic Messages API and needs no key. It answers by rule, really
 * driving the tools it is offered, or plays a scenario. It is a stand-in for tests, benchmarks and keyless use, not an LLM.
 *
 * Owns nothing but the composition: listener, ledger, prompt cache and script player each own their state.
 *
 * Invariants:
 * 1. `start` and `stop` are idempotent; a server that was stopped may be started again and keeps its port.
 * 2. `stop` resolves when every connection is closed and every call under way stands in the ledger.
 * 3. Control routes (`/offline/…`) and the methods here change the same state.
 */
import { appendFileSync } from "node:fs";
import { OfflineModelError } from "./api-error.ts";
import { createLedger, type LedgerEntry } from "./ledger.ts";
import { createListener } from "./listener.ts";
import { createPromptCache } from "./prompt-cache.ts";
import { type RouteParts, serve } from "./routes.ts";
import { parseScenario, type Scenario } from "./scenario.ts";
import { createScriptPlayer } from "./script-player.ts";
import { createTurnstile } from "./turnstile.ts";

export { OfflineModelError } from "./api-error.ts";
export type { LedgerEntry } from "./ledger.ts";
export { Scenario } from "./scenario.ts";

/** Options of the offline model. */
export interface OfflineModelOptions {
  /** Address to listen on. Default `127.0.0.1`. */
  host?: string;
  /** Port; 0 takes a free one. Default 0. */
  port?: number;
  /** Time before the first byte of every answer, in milliseconds. Default 0. */
  latencyMs?: number;
  /** Calls answered at a time; the others wait, as at a backend that serialises. Default: any number. */
  parallel?: number;
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
  const { host = "127.0.0.1", port = 0, ledgerPath, latencyMs = 0, parallel } = options;
  const ledger = createLedger(ledgerPath);
  const player = createScriptPlayer();
  const parts: RouteParts = {
    ledger,
    player,
    cache: createPromptCache(),
    latencyMs,
    turnstile: createTurnstile(parallel),
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
    throw new OfflineModelError("ledger_unwritable", `The ledger ${path} cannot be appended to.`, { cause });
  }
}
