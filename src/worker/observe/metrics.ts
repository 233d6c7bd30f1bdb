/**
 * The metrics of one worker process, in the format of Prometheus. `docs/operations.md` lists the names.
 *
 * Owns counters and histograms, which the runs update, and the event-loop monitor. A scrape queries Redis, at most every
 * {@link ASK_EVERY_MS}; a run never does.
 *
 * 1. A label's values are bounded: names that models and producers choose become `other` after the first
 *    {@link MOST_VALUES}.
 * 2. A scrape answers within about a second, whatever Redis does: a metric that is not ready in time is left out, and so is
 *    one that the machine cannot give now.
 * 3. While a query waits for its answer, no scrape sends it again: an outage of Redis leaves one of each to be answered.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Clock } from "../../shared/clock.ts";
import type { Usage } from "../../shared/protocol/content.ts";
import type { Keys } from "../../shared/protocol/keys.ts";
import type { ReplyStatus, StopReason } from "../../shared/protocol/reply.ts";
import type { RedisClient } from "../../shared/redis/connection/connection.ts";
import type { Pause } from "../../shared/redis/pause.ts";
import { readOldestReplyMs, readSweeperLagMs } from "../../shared/redis/survey.ts";
import type { WakeQueue } from "../../shared/redis/wake-queue.ts";

const MOST_VALUES = 50;
const ASK_EVERY_MS = 5_000;
const ASK_MS = 1_000;
/** Number of parents whose oldest reply is read; those inactive for longest come first. */
const PARENTS_ASKED = 1_000;
const LOOP_RESOLUTION_MS = 20;
const CALL_SECONDS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640];
const TOOL_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
const RUN_SECONDS = [0.1, 0.5, 1, 5, 15, 30, 60, 120, 300, 600, 1_800, 3_600];

/** The observed worker; its queries to Redis may fail or be late. */
export interface ObservedWorker {
  redis: RedisClient;
  keys: Keys;
  wakes: WakeQueue;
  pause: Pick<Pause, "state">;
  /** Time a reply is kept that no parent acks, ms. */
  replyTtlMs: number;
  /** Number of active runs in this process. */
  activeRuns(): number;
  clock: Clock;
}

/** Response to a Prometheus server. */
export interface Scrape {
  contentType: string;
  text: string;
}

/** The counters of runs. A process of suspects has none of its own and tells its worker. */
export type RunMetrics = Pick<
  Metrics,
  "takenOver" | "settled" | "answered" | "bought" | "refused" | "toolCalled"
>;

/** See the module's header. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #worker: ObservedWorker;
  readonly #loop = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });
  readonly #models = new BoundedNames();
  readonly #tools = new BoundedNames();
  readonly #kinds = new BoundedNames();
  readonly #asked: readonly Asked[];
  readonly #wakesTaken = this.#counter("subagent_wakes_taken_total", "Wakes taken, by outcome", ["outcome"]);
  readonly #takeovers = this.#counter(
    "subagent_takeovers_total",
    "Runs that this worker took over from one whose lease had expired",
    [],
  );
  readonly #runs = this.#counter("subagent_runs_total", "Runs settled or ended by this worker", [
    "status",
    "stop_reason",
  ]);
  readonly #runSeconds = this.#histogram(
    "subagent_run_duration_seconds",
    "Running time of settled runs, waiting excluded",
    ["status"],
    RUN_SECONDS,
  );
  readonly #turnSeconds = this.#histogram(
    "subagent_turn_duration_seconds",
    "Time from a model call to its answer",
    ["model"],
    CALL_SECONDS,
  );
  readonly #toolSeconds = this.#histogram(
    "subagent_tool_duration_seconds",
    "Duration of tool calls",
    ["tool", "outcome"],
    TOOL_SECONDS,
  );
  readonly #tokens = this.#counter("subagent_tokens_total", "Tokens bought", ["model", "type"]);
  readonly #cost = this.#counter("subagent_cost_usd_total", "USD spent, as far as prices are known", [
    "model",
  ]);
  readonly #refusals = this.#counter("subagent_model_refusals_total", "Model calls without an answer", [
    "kind",
  ]);

  constructor(worker: ObservedWorker) {
    this.#worker = worker;
    this.#asked = this.#gauges();
  }

  /** Begins to monitor the event loop. Idempotent. */
  start(): void {
    this.#loop.enable();
  }

  /** Idempotent. */
  stop(): void {
    this.#loop.disable();
  }

  /** Counts a wake that is done. */
  wake(outcome: string): void {
    this.#wakesTaken.inc({ outcome });
  }

  /** Counts a run whose last worker is gone. */
  takenOver(): void {
    this.#takeovers.inc();
  }

  /** Counts a run that this worker settled. */
  settled(status: ReplyStatus, stopReason: StopReason, durationMs: number): void {
    this.#runs.inc({ status, stop_reason: stopReason });
    this.#runSeconds.observe({ status }, durationMs / 1_000);
  }

  /** Counts a run that the sweeper of this worker ended; how long it took is unknown. */
  ended(status: ReplyStatus, stopReason: StopReason): void {
    this.#runs.inc({ status, stop_reason: stopReason });
  }

  /** Records a model call that brought an answer. */
  answered(model: string, durationMs: number): void {
    this.#turnSeconds.observe({ model: this.#models.bounded(model) }, durationMs / 1_000);
  }

  /** Counts a paid model call, with or without an answer. */
  bought(model: string, usage: Usage, costUsd: number): void {
    const name = this.#models.bounded(model);
    this.#tokens.inc({ model: name, type: "input" }, usage.input_tokens);
    this.#tokens.inc({ model: name, type: "output" }, usage.output_tokens);
    this.#tokens.inc({ model: name, type: "cache_read" }, usage.cache_read_input_tokens);
    this.#tokens.inc({ model: name, type: "cache_write" }, usage.cache_creation_input_tokens);
    this.#cost.inc({ model: name }, costUsd);
  }

  /** Counts a model call without an answer; `kind` as in the model port. */
  refused(kind: string): void {
    this.#refusals.inc({ kind: this.#kinds.bounded(kind) });
  }

  /** Records a tool call that has ended. */
  toolCalled(tool: string, isError: boolean, durationMs: number): void {
    const labels = { tool: this.#tools.bounded(tool), outcome: isError ? "error" : "ok" };
    this.#toolSeconds.observe(labels, durationMs / 1_000);
  }

  /** Returns all current metrics. */
  async scrape(): Promise<Scrape> {
    await this.#ask();
    return { contentType: this.#registry.contentType, text: await this.#registry.metrics() };
  }

  #counter<Label extends string>(name: string, help: string, labelNames: readonly Label[]): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  #histogram<Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
    buckets: number[],
  ): Histogram<Label> {
    return new Histogram({ name, help, labelNames, buckets, registers: [this.#registry] });
  }

  #gauge(name: string, help: string, collect?: (gauge: Gauge) => void): Gauge {
    const options = { name, help, registers: [this.#registry] };
    const gauge: Gauge = new Gauge(collect ? { ...options, collect: () => collect(gauge) } : options);
    return gauge;
  }

  /** Creates the gauges: those of this process are read at each scrape, those of Redis are queried. */
  #gauges(): readonly Asked[] {
    const { redis, keys, wakes, pause, replyTtlMs, activeRuns } = this.#worker;
    const oldestReplyMs = () => readOldestReplyMs(redis, keys, { most: PARENTS_ASKED, replyTtlMs });
    this.#gauge("subagent_runs_active", "Runs going on in this process", (gauge) => gauge.set(activeRuns()));
    this.#gauge("process_resident_memory_bytes", "Resident memory", (gauge) => {
      try {
        gauge.set(process.memoryUsage.rss());
      } catch {
        // Reading it takes a file descriptor.
        gauge.remove();
      }
    });
    this.#loopGauges();
    const waiting = new Gauge({
      name: "subagent_wakes",
      help: "Wakes in the queue by state, of the whole installation",
      labelNames: ["state"],
      registers: [this.#registry],
    });
    const age = this.#gauge(
      "subagent_oldest_unacked_reply_seconds",
      "Age of the oldest reply that no parent has acked, of the whole installation",
    );
    const lag = this.#gauge(
      "subagent_sweeper_lag_seconds",
      "How late the earliest unchecked deadline is, of the whole installation",
    );
    const paused = this.#gauge("subagent_paused", "1 while an operator has paused the installation, else 0");
    const isPaused = async () => (await pause.state()) !== undefined;
    return [
      { ask: async () => paused.set((await isPaused()) ? 1 : 0), forget: () => paused.remove() },
      { ask: async () => setStates(waiting, await wakes.counts()), forget: () => waiting.reset() },
      { ask: async () => age.set((await oldestReplyMs()) / 1_000), forget: () => age.remove() },
      { ask: async () => lag.set((await readSweeperLagMs(redis, keys)) / 1_000), forget: () => lag.remove() },
    ].map((each) => ({ ...each, askedMs: Number.NEGATIVE_INFINITY, isUnderWay: false }));
  }

  /** Creates the gauges of the event-loop lag since the last scrape, without the sampling interval. */
  #loopGauges(): void {
    const seconds = (nanoseconds: number) =>
      Number.isFinite(nanoseconds) ? Math.max(0, nanoseconds / 1e9 - LOOP_RESOLUTION_MS / 1_000) : 0;
    const loop = this.#loop;
    this.#gauge(
      "nodejs_eventloop_lag_mean_seconds",
      "Mean lag of the event loop since the last scrape",
      (gauge) => gauge.set(seconds(loop.mean)),
    );
    this.#gauge("nodejs_eventloop_lag_p99_seconds", "99th percentile of that lag", (gauge) =>
      gauge.set(seconds(loop.percentile(99))),
    );
    // Registered last and read last: the reset starts the next measuring period.
    this.#gauge("nodejs_eventloop_lag_max_seconds", "Longest of that lag", (gauge) => {
      gauge.set(seconds(loop.max));
      loop.reset();
    });
  }

  /** Refreshes values older than {@link ASK_EVERY_MS} from Redis; leaves out those that are not there in time. */
  async #ask(): Promise<void> {
    const { clock } = this.#worker;
    const nowMs = clock.monotonicMs();
    const late = new AbortController();
    const timeUp = clock.sleep(ASK_MS, late.signal);
    const due = this.#asked.filter(
      ({ askedMs, isUnderWay }) => !isUnderWay && nowMs - askedMs >= ASK_EVERY_MS,
    );
    const asking = due.map(async (each) => {
      each.askedMs = nowMs;
      each.isUnderWay = true;
      each.forget();
      await each.ask().catch(() => {
        each.askedMs = Number.NEGATIVE_INFINITY;
      });
      each.isUnderWay = false;
    });
    await Promise.race([Promise.all(asking), timeUp]);
    late.abort();
  }
}

/** A gauge whose value comes from Redis, the time of its last query (monotonic ms), and whether that waits for its answer. */
interface Asked {
  ask(): Promise<void>;
  forget(): void;
  askedMs: number;
  isUnderWay: boolean;
}

function setStates(gauge: Gauge<string>, counts: Readonly<Record<string, number>>): void {
  for (const [state, count] of Object.entries(counts)) gauge.set({ state }, count);
}

/** Values of a label that models or producers choose. */
export class BoundedNames {
  readonly #seen = new Set<string>();

  /** Returns the name for the first {@link MOST_VALUES} names, then `other`. */
  bounded(name: string): string {
    if (this.#seen.has(name)) return name;
    if (this.#seen.size >= MOST_VALUES) return "other";
    this.#seen.add(name);
    return name;
  }
}
