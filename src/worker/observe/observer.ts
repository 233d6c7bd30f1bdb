/**
 * Telemetry of the runs of one worker, for operators: a log line per turn and per run, metrics, spans. The runs report to
 * it; nothing here queries Redis or waits.
 *
 * A turn's line is written when the turn is over: with the next call, the reply, or the end of the run in this process. No
 * line, label or attribute contains prompts, results or arguments: only ids, names, counts and durations.
 *
 * The spans are run → turn → tool, by the API of OpenTelemetry and with the names of its GenAI conventions. Each process
 * that holds the run has its own run span. All are children of the span that the record names, so they form one trace.
 * An SDK that throws ends no run: paid answers and outcomes of tools are kept, and spans are missing.
 */
import type { Context, Span } from "@opentelemetry/api";
import type { Logger } from "../../shared/logger.ts";
import type { AgentRecord, AgentSpec } from "../../shared/protocol/agent.ts";
import { promptTokens, totalTokens, type Usage } from "../../shared/protocol/content.ts";
import { type RemoteSpan, spanOfRun, traceparentOf } from "../../shared/protocol/ids.ts";
import type { AgentAddress } from "../../shared/protocol/keys.ts";
import type { ReplyBody, ReplyStatus, StopReason } from "../../shared/protocol/reply.ts";
import { type TelemetryApi, unlessTelemetryFails } from "../../shared/telemetry.ts";
import type { RunMetrics } from "./metrics.ts";

/** Identity of a run in every line, metric and span. */
export interface ObservedRun {
  tenant: string;
  parentId: string;
  uid: string;
  agentId: string;
  /** Name for people, as the parent wrote it. */
  name: string;
  run: number;
  model: string;
  /** `traceparent` of the caller that spawned the agent. */
  traceparent?: string | undefined;
}

/** Returns the identity of the run of `record`; without a `spec` the model is "". */
export function observedRun(
  { tenant, parentId, uid }: AgentAddress,
  {
    agent_id: agentId,
    name,
    run,
    spec,
  }: Pick<AgentRecord, "agent_id" | "name" | "run"> & { spec?: AgentSpec },
): ObservedRun {
  const { model = "", traceparent } = spec ?? {};
  return { tenant, parentId, uid, agentId, name, run, model, traceparent };
}

/** A run's result as reported to the observer. */
export interface Settled {
  status: ReplyStatus;
  stopReason: StopReason;
  body: ReplyBody;
}

/** See the module's header. */
export class Observer {
  readonly metrics: RunMetrics | undefined;
  readonly #logger: Logger;
  /** Set when the worker starts. */
  #api: TelemetryApi | undefined;

  constructor(logger: Logger, metrics?: RunMetrics) {
    this.#logger = logger;
    this.metrics = metrics;
  }

  /** Gives spans to runs from now on; without an SDK in the process they are not recorded. */
  traceWith(api: TelemetryApi | undefined): void {
    this.#api = api;
  }

  /** Begins to observe a run that this process holds. */
  observe(run: ObservedRun): RunObserver {
    return new RunObserver(run, { logger: this.#logger, metrics: this.metrics, api: this.#api });
  }
}

/** A model answer as reported to the observer. */
export interface ObservedAnswer {
  turn: number;
  model: string;
  stopReason: string;
  usage: Usage;
  costUsd: number;
  durationMs: number;
}

/** Outputs of a run's telemetry. */
interface Outputs {
  logger: Logger;
  metrics: RunMetrics | undefined;
  api: TelemetryApi | undefined;
}

/** Observer of one run in this process, from its claim to its end here. */
export class RunObserver {
  readonly #run: ObservedRun;
  readonly #outputs: Outputs;
  readonly #span: RemoteSpan;
  /** Created with the first line, so that the run's fields are serialised once. */
  #runLogger: Logger | undefined;
  /** Created with the first traced event if an SDK records: a claim that must only wait has no span. */
  #spans: RunSpans | undefined;
  #areSpansTried = false;
  /** Model of the current or last call; differs from the run's own if that one is limited. */
  #model: string;
  #answer: ObservedAnswer | undefined;
  #tools: { tool: string; ms: number; error?: true }[] = [];

  constructor(run: ObservedRun, outputs: Outputs) {
    this.#run = run;
    this.#outputs = outputs;
    this.#span = spanOfRun(run.uid, run.run, run.traceparent);
    this.#model = run.model;
  }

  /** `traceparent` of the model call in progress. */
  get traceparent(): string {
    return unlessTelemetryFails(() => this.#spans?.traceparent) ?? traceparentOf(this.#span);
  }

  /** Called when turn `turn` begins with a call of `model`. */
  callBegins(turn: number, model: string): void {
    this.#tellTurn();
    this.#model = model;
    this.#startSpans();
    this.#toSpans((spans) => spans.callBegins(turn, model));
  }

  /** Called when the call brought an answer. */
  answered(answer: ObservedAnswer): void {
    const { metrics } = this.#outputs;
    this.#answer = answer;
    metrics?.answered(answer.model, answer.durationMs);
    metrics?.bought(answer.model, answer.usage, answer.costUsd);
    this.#toSpans((spans) => spans.answered(answer));
  }

  /** Called when the call brought none: `kind` of the failure, or `aborted`. With `usage` it was billed all the same. */
  callFailed(kind: string, usage: Usage | undefined, costUsd: number): void {
    const { metrics } = this.#outputs;
    if (kind !== "aborted") metrics?.refused(kind);
    if (usage) metrics?.bought(this.#model, usage, costUsd);
    this.#toSpans((spans) => spans.failed(kind, usage, costUsd));
  }

  /** Called when this worker has booked a call of `model` that an earlier holder had begun before it crashed. */
  lostCallCharged(model: string, usage: Usage, costUsd: number): void {
    this.#outputs.metrics?.bought(model, usage, costUsd);
  }

  /** Performs a tool call; `isOffered`: a tool of this run has that name. */
  async tool<Outcome extends { isError: boolean; durationMs: number }>(
    call: { id: string; name: string },
    isOffered: boolean,
    work: () => Promise<Outcome>,
  ): Promise<Outcome> {
    this.#startSpans();
    const outcome = await (this.#spans?.tool(call, work) ?? work());
    const { isError, durationMs } = outcome;
    const told = { tool: call.name, ms: Math.round(durationMs) };
    this.#tools.push(isError ? { ...told, error: true } : told);
    this.#outputs.metrics?.toolCalled(isOffered ? call.name : "unknown", isError, durationMs);
    return outcome;
  }

  /** Called when this worker has settled the run. */
  settled({ status, stopReason, body }: Settled): void {
    this.#tellTurn();
    const { turns, tokens, usage, cost_usd, duration_ms: ms } = body;
    this.#outputs.metrics?.settled(status, stopReason, ms);
    this.#startSpans();
    this.#toSpans((spans) => spans.settled(stopReason, usage, cost_usd, status === "failed"));
    this.#logger.info({ status, stop_reason: stopReason, turns, tokens, cost_usd, ms }, "Run");
  }

  /** Called when this process' part in the run is over. */
  end({ status, reason }: { status: string; reason?: string }): void {
    this.#tellTurn();
    this.#toSpans((spans) => spans.end(reason === undefined ? status : `${status}: ${reason}`));
  }

  /** Starts the spans of the run at the first traced event, if an SDK records them. Never throws. */
  #startSpans(): void {
    const { api } = this.#outputs;
    if (!api || this.#areSpansTried) return;
    this.#areSpansTried = true;
    const spans = unlessTelemetryFails(() => new RunSpans(api, this.#run, this.#span));
    if (spans?.isRecorded) this.#spans = spans;
  }

  /** Passes an event to the spans, if the run has any. Never throws. */
  #toSpans(event: (spans: RunSpans) => void): void {
    const spans = this.#spans;
    if (spans) unlessTelemetryFails(() => event(spans));
  }

  get #logger(): Logger {
    const { tenant, parentId: parent_id, agentId: agent_id, uid, run } = this.#run;
    const { traceId: trace_id } = this.#span;
    this.#runLogger ??= this.#outputs.logger.child({ tenant, parent_id, agent_id, uid, run, trace_id });
    return this.#runLogger;
  }

  #tellTurn(): void {
    if (!this.#answer) return;
    const { turn, model, stopReason, usage, costUsd, durationMs } = this.#answer;
    this.#answer = undefined;
    const tools = this.#tools;
    this.#tools = [];
    const [tokens, ms] = [totalTokens(usage), Math.round(durationMs)];
    const line = { turn, model, stop_reason: stopReason, tokens, cost_usd: costUsd, ms, tools };
    this.#logger.info(line, "Turn");
  }
}

const TRACER = "subagent-queue";
const PROVIDER = "anthropic";

/** Spans of one run in one process. All methods but `tool` may throw errors of the SDK. */
class RunSpans {
  readonly #api: TelemetryApi;
  readonly #run: Span;
  readonly #context: Context;
  /** True if an SDK is present: without one, `startSpan` returns the caller's span again. */
  readonly isRecorded: boolean;
  /** Span of the current call. */
  #turn: Span | undefined;
  #turnContext: Context;

  /** `under`: the span that the record names. */
  constructor(api: TelemetryApi, observed: ObservedRun, under: RemoteSpan) {
    const { tenant, parentId, uid, agentId, name, run, model } = observed;
    this.#api = api;
    const parent = api.trace.setSpanContext(api.ROOT_CONTEXT, { isRemote: true, ...under });
    const attributes = {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.provider.name": PROVIDER,
      "gen_ai.agent.id": agentId,
      "gen_ai.agent.name": name,
      "gen_ai.conversation.id": uid,
      "gen_ai.request.model": model,
      "subagent.tenant": tenant,
      "subagent.parent_id": parentId,
      "subagent.run": run,
    };
    this.#run = this.#tracer.startSpan(`invoke_agent ${name}`, { attributes }, parent);
    this.isRecorded = this.#run.spanContext().spanId !== under.spanId;
    this.#context = api.trace.setSpan(parent, this.#run);
    this.#turnContext = this.#context;
  }

  /** `traceparent` of the model call in progress. */
  get traceparent(): string {
    return traceparentOf((this.#turn ?? this.#run).spanContext());
  }

  /** Starts the span of a turn with its call of `model`. */
  callBegins(turn: number, model: string): void {
    const attributes = {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": PROVIDER,
      "gen_ai.request.model": model,
      "subagent.turn": turn,
    };
    const kind = this.#api.SpanKind.CLIENT;
    this.#turnContext = this.#context;
    this.#turn = this.#tracer.startSpan(`chat ${model}`, { kind, attributes }, this.#context);
    this.#turnContext = this.#api.trace.setSpan(this.#context, this.#turn);
  }

  /** Ends the turn's span after an answer; the tools that it calls are spans below this turn. */
  answered({ model, stopReason, usage, costUsd }: ObservedAnswer): void {
    const turn = this.#takeTurn();
    turn?.setAttributes({
      "gen_ai.response.model": model,
      "gen_ai.response.finish_reasons": [stopReason],
      ...usageAttributes(usage, costUsd),
    });
    turn?.end();
  }

  /** Ends the turn's span after a call without an answer; `kind` as in the model port. */
  failed(kind: string, usage: Usage | undefined, costUsd: number): void {
    const turn = this.#takeTurn();
    if (usage) turn?.setAttributes(usageAttributes(usage, costUsd));
    turn?.setAttribute("error.type", kind).setStatus({ code: this.#api.SpanStatusCode.ERROR });
    turn?.end();
  }

  /**
   * Performs a tool call, once, in its own span, which is active meanwhile: spans of the tool become its children. Throws only
   * errors of `work`.
   */
  async tool<Outcome extends { isError: boolean }>(
    { id, name }: { id: string; name: string },
    work: () => Promise<Outcome>,
  ): Promise<Outcome> {
    const attributes = {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": name,
      "gen_ai.tool.call.id": id,
      "gen_ai.tool.type": "function",
    };
    const start = () => this.#tracer.startSpan(`execute_tool ${name}`, { attributes }, this.#turnContext);
    const span = unlessTelemetryFails(start);
    if (!span) return work();
    let working: Promise<Outcome> | undefined;
    const begin = () => {
      working ??= work();
      return working;
    };
    try {
      unlessTelemetryFails(() => {
        void this.#api.context.with(this.#api.trace.setSpan(this.#turnContext, span), begin);
      });
      const outcome = await begin();
      unlessTelemetryFails(() => {
        if (outcome.isError)
          span.setAttribute("error.type", "tool_error").setStatus({ code: this.#api.SpanStatusCode.ERROR });
      });
      return outcome;
    } finally {
      unlessTelemetryFails(() => span.end());
    }
  }

  /** Adds the result to the run's span; `isFailed`: the run has no result. */
  settled(stopReason: string, usage: Usage, costUsd: number, isFailed: boolean): void {
    this.#run.setAttributes({ "subagent.stop_reason": stopReason, ...usageAttributes(usage, costUsd) });
    if (isFailed)
      this.#run.setAttribute("error.type", stopReason).setStatus({ code: this.#api.SpanStatusCode.ERROR });
  }

  /** Ends the run's span, and that of a call that was cut off; `how`: settled, released and why, or lost. */
  end(how: string): void {
    if (this.#turn) this.failed("aborted", undefined, 0);
    this.#run.setAttribute("subagent.end", how);
    this.#run.end();
  }

  #takeTurn(): Span | undefined {
    const turn = this.#turn;
    this.#turn = undefined;
    return turn;
  }

  get #tracer() {
    return this.#api.trace.getTracer(TRACER);
  }
}

/** Returns usage attributes. The conventions count cached tokens as input; the agent's counters keep them apart. */
function usageAttributes(usage: Usage, costUsd: number) {
  return {
    "gen_ai.usage.input_tokens": promptTokens(usage),
    "gen_ai.usage.output_tokens": usage.output_tokens,
    "gen_ai.usage.cache_read.input_tokens": usage.cache_read_input_tokens,
    "gen_ai.usage.cache_creation.input_tokens": usage.cache_creation_input_tokens,
    "subagent.cost_usd": costUsd,
  };
}
