/**
 * The spans of a run: run → turn → tool, by the API of OpenTelemetry and with the names of its GenAI conventions. Each
 * process that holds the run has a run span of its own; all hang under the span that the record names, so that they are
 * one trace.
 */
import type { Context, Span } from "@opentelemetry/api";
import { promptTokens, type Usage } from "../../shared/protocol/content.ts";
import { type RemoteSpan, traceparentOf } from "../../shared/protocol/ids.ts";
import type { TelemetryApi } from "../../shared/telemetry.ts";

const TRACER = "subagent-queue";
const PROVIDER = "anthropic";

/** What the run span says of its run. */
export interface TracedRun {
  tenant: string;
  parentId: string;
  uid: string;
  agentId: string;
  name: string;
  run: number;
  model: string;
  span: RemoteSpan;
}

/** What a model call came to. */
export interface TracedAnswer {
  model: string;
  stopReason: string;
  usage: Usage;
  costUsd: number;
}

/** The spans of one run in one process. */
export class RunSpans {
  readonly #api: TelemetryApi;
  readonly #run: Span;
  readonly #context: Context;
  /** Whether an SDK is there: without one, what should be a new span is the caller's once more. */
  readonly isRecorded: boolean;
  #turn: Span | undefined;
  #turnContext: Context;

  constructor(api: TelemetryApi, traced: TracedRun) {
    const { tenant, parentId, uid, agentId, name, run, model, span } = traced;
    this.#api = api;
    const parent = api.trace.setSpanContext(api.ROOT_CONTEXT, { isRemote: true, ...span });
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
    this.isRecorded = this.#run.spanContext().spanId !== span.spanId;
    this.#context = api.trace.setSpan(parent, this.#run);
    this.#turnContext = this.#context;
  }

  /** `traceparent` of the model call under way. */
  get traceparent(): string {
    return traceparentOf((this.#turn ?? this.#run).spanContext());
  }

  /** A turn begins with its call of `model`. */
  callBegins(turn: number, model: string): void {
    const attributes = {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": PROVIDER,
      "gen_ai.request.model": model,
      "subagent.turn": turn,
    };
    const kind = this.#api.SpanKind.CLIENT;
    this.#turn = this.#tracer.startSpan(`chat ${model}`, { kind, attributes }, this.#context);
    this.#turnContext = this.#api.trace.setSpan(this.#context, this.#turn);
  }

  /** The call brought an answer; the tools that it asks for are spans below this turn. */
  answered({ model, stopReason, usage, costUsd }: TracedAnswer): void {
    this.#turn?.setAttributes({
      "gen_ai.response.model": model,
      "gen_ai.response.finish_reasons": [stopReason],
      ...usageAttributes(usage, costUsd),
    });
    this.#turn?.end();
  }

  /** The call brought none; `kind` as the model port names it. */
  failed(kind: string, usage: Usage | undefined, costUsd: number): void {
    if (usage) this.#turn?.setAttributes(usageAttributes(usage, costUsd));
    this.#turn?.setAttribute("error.type", kind).setStatus({ code: this.#api.SpanStatusCode.ERROR });
    this.#turn?.end();
  }

  /** Performs a tool call in a span of its own, active while it goes on: what the tool traces hangs below it. */
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
    const span = this.#tracer.startSpan(`execute_tool ${name}`, { attributes }, this.#turnContext);
    try {
      const outcome = await this.#api.context.with(this.#api.trace.setSpan(this.#turnContext, span), work);
      if (outcome.isError)
        span.setAttribute("error.type", "tool_error").setStatus({ code: this.#api.SpanStatusCode.ERROR });
      return outcome;
    } finally {
      span.end();
    }
  }

  /** The run was settled; `isFailed`: without a result. */
  settled(stopReason: string, usage: Usage, costUsd: number, isFailed: boolean): void {
    this.#run.setAttributes({ "subagent.stop_reason": stopReason, ...usageAttributes(usage, costUsd) });
    if (isFailed)
      this.#run.setAttribute("error.type", stopReason).setStatus({ code: this.#api.SpanStatusCode.ERROR });
  }

  /** This process' part in the run is over; `how`: settled, released and why, or lost. */
  end(how: string): void {
    this.#run.setAttribute("subagent.end", how);
    this.#run.end();
  }

  get #tracer() {
    return this.#api.trace.getTracer(TRACER);
  }
}

/** The conventions count cached tokens as input; the agent's own counters keep them apart. */
function usageAttributes(usage: Usage, costUsd: number) {
  return {
    "gen_ai.usage.input_tokens": promptTokens(usage),
    "gen_ai.usage.output_tokens": usage.output_tokens,
    "gen_ai.usage.cache_read.input_tokens": usage.cache_read_input_tokens,
    "gen_ai.usage.cache_creation.input_tokens": usage.cache_creation_input_tokens,
    "subagent.cost_usd": costUsd,
  };
}
