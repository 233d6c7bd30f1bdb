/**
 * What operators see of the runs of one worker: a log line a turn and a run, figures, spans. The runs tell it; nothing here
 * asks Redis or waits.
 *
 * A turn's line is written when the turn is over: with the next call, the reply, or the end of the run in this process.
 * Prompts, results and arguments are in no line, label or attribute: ids, names, counts and durations only.
 */
import type { Logger } from "../../shared/logger.ts";
import { totalTokens, type Usage } from "../../shared/protocol/content.ts";
import { type RemoteSpan, spanOfRun, traceparentOf } from "../../shared/protocol/ids.ts";
import type { ReplyBody, StopReason } from "../../shared/protocol/reply.ts";
import type { TelemetryApi } from "../../shared/telemetry.ts";
import type { Metrics } from "./metrics.ts";
import { RunSpans } from "./spans.ts";

/** A run as every line, figure and span names it. */
export interface ObservedRun {
  tenant: string;
  parentId: string;
  uid: string;
  agentId: string;
  /** For people; as the parent wrote it. */
  name: string;
  run: number;
  model: string;
  /** The span whose caller spawned the agent. */
  traceparent?: string | undefined;
}

/** A run's result as it is told. */
export interface Settled {
  status: string;
  stopReason: StopReason;
  body: ReplyBody;
}

/** See the module's header. */
export class Observer {
  readonly metrics: Metrics | undefined;
  readonly #logger: Logger;
  /** Loaded with the start of the worker. */
  #api: TelemetryApi | undefined;

  constructor(logger: Logger, metrics?: Metrics) {
    this.#logger = logger;
    this.metrics = metrics;
  }

  /** From now on runs have spans; without an SDK in the process they are recorded nowhere. */
  traceWith(api: TelemetryApi | undefined): void {
    this.#api = api;
  }

  /** Begins to observe a run that this process holds. */
  observe(run: ObservedRun): RunObserver {
    return new RunObserver(run, { logger: this.#logger, metrics: this.metrics, api: this.#api });
  }
}

/** A model answer as it is told. */
export interface ObservedAnswer {
  turn: number;
  model: string;
  stopReason: string;
  usage: Usage;
  costUsd: number;
  durationMs: number;
}

/** What a run is told with. */
interface Means {
  logger: Logger;
  metrics: Metrics | undefined;
  api: TelemetryApi | undefined;
}

/** One run in this process, from its claim to its end here. */
export class RunObserver {
  readonly #run: ObservedRun;
  readonly #means: Means;
  readonly #span: RemoteSpan;
  /** Begun with the first line: what names the run is spelled once. */
  #logger: Logger | undefined;
  /** Begun with the first thing that is traced, where an SDK records: a claim that must only wait has no span. */
  #spans: RunSpans | undefined;
  #isTraced = true;
  /** The model that is asked now, or was last: another than the run's own where that one is limited. */
  #model: string;
  #answer: ObservedAnswer | undefined;
  #tools: { tool: string; ms: number; error?: true }[] = [];

  constructor(run: ObservedRun, means: Means) {
    this.#run = run;
    this.#means = means;
    this.#span = spanOfRun(run.uid, run.run, run.traceparent);
    this.#model = run.model;
  }

  /** `traceparent` of the model call under way. */
  get traceparent(): string {
    return this.#spans?.traceparent ?? traceparentOf(this.#span);
  }

  /** A call of `model` begins, and with it turn `turn`. */
  callBegins(turn: number, model: string): void {
    this.#tellTurn();
    this.#model = model;
    this.#traced()?.callBegins(turn, model);
  }

  /** The call brought an answer. */
  answered(answer: ObservedAnswer): void {
    const { metrics } = this.#means;
    this.#answer = answer;
    metrics?.answered(answer.model, answer.durationMs);
    metrics?.bought(answer.model, answer.usage, answer.costUsd);
    this.#spans?.answered(answer);
  }

  /** The call brought none: `kind` of the failure, or `aborted`. With `usage` it was paid for all the same. */
  callFailed(kind: string, usage: Usage | undefined, costUsd: number): void {
    const { metrics } = this.#means;
    if (kind !== "aborted") metrics?.refused(kind);
    if (usage) metrics?.bought(this.#model, usage, costUsd);
    this.#spans?.failed(kind, usage, costUsd);
  }

  /** Performs a tool call; `isOffered`: a tool of this run has that name. */
  async tool<Outcome extends { isError: boolean; durationMs: number }>(
    call: { id: string; name: string },
    isOffered: boolean,
    work: () => Promise<Outcome>,
  ): Promise<Outcome> {
    const outcome = await (this.#traced()?.tool(call, work) ?? work());
    const { isError, durationMs } = outcome;
    const told = { tool: call.name, ms: Math.round(durationMs) };
    this.#tools.push(isError ? { ...told, error: true } : told);
    this.#means.metrics?.toolCalled(isOffered ? call.name : "unknown", isError, durationMs);
    return outcome;
  }

  /** The run was settled by this worker. */
  settled({ status, stopReason, body }: Settled): void {
    this.#tellTurn();
    const { turns, tokens, usage, cost_usd, duration_ms: ms } = body;
    this.#means.metrics?.settled(status, stopReason, ms);
    this.#traced()?.settled(stopReason, usage, cost_usd, status === "failed");
    this.#lines().info({ status, stop_reason: stopReason, turns, tokens, cost_usd, ms }, "Run");
  }

  /** This process' part in the run is over. */
  end({ status, reason }: { status: string; reason?: string }): void {
    this.#tellTurn();
    this.#spans?.end(reason === undefined ? status : `${status}: ${reason}`);
  }

  #traced(): RunSpans | undefined {
    if (this.#spans || !this.#isTraced) return this.#spans;
    const { api } = this.#means;
    const spans = api && new RunSpans(api, { span: this.#span, ...this.#run });
    this.#isTraced = spans?.isRecorded === true;
    if (this.#isTraced) this.#spans = spans;
    return this.#spans;
  }

  #lines(): Logger {
    const { tenant, parentId: parent_id, agentId: agent_id, uid, run } = this.#run;
    const { traceId: trace_id } = this.#span;
    this.#logger ??= this.#means.logger.child({ tenant, parent_id, agent_id, uid, run, trace_id });
    return this.#logger;
  }

  #tellTurn(): void {
    if (!this.#answer) return;
    const { turn, model, stopReason, usage, costUsd, durationMs } = this.#answer;
    this.#answer = undefined;
    const tools = this.#tools;
    this.#tools = [];
    const [tokens, ms] = [totalTokens(usage), Math.round(durationMs)];
    const line = { turn, model, stop_reason: stopReason, tokens, cost_usd: costUsd, ms, tools };
    this.#lines().info(line, "Turn");
  }
}
