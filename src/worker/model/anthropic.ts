/**
 * The Anthropic model: the only caller of the SDK's client; one client and one connection pool per instance.
 *
 * Owns: the client, the time a call may take, and the calls in flight. Neighbours: `transport.ts` owns sockets and
 * silence within a body, `turn-builder.ts` the message, `failure.ts` what an error means, the worker all retries.
 *
 * Invariants
 * 1. `call` never rejects and never outlives its signal, `timeoutMs`, or `stop`.
 * 2. A call that has not ended with a turn has given its socket up.
 * 3. Nothing is read from the environment but OpenTelemetry's switches: key, host and headers are arguments.
 * 4. Nothing is written to the console.
 */
import { createHash } from "node:crypto";
import Anthropic from "@anthropic-ai/sdk";
import { type Clock, systemClock } from "../../shared/clock.ts";
import { SubagentError } from "../../shared/errors.ts";
import { wellFormedJson } from "../../shared/protocol/well-formed-json.ts";
import { classify } from "./failure.ts";
import { MalformedTurnError, TruncatedStreamError } from "./fault.ts";
import { toMessageParams } from "./message-params.ts";
import type { CallOptions, Model, ModelFailure, ModelOutcome, ModelRequest } from "./model.ts";
import { createTransport, type Transport, type TransportInit } from "./transport.ts";
import { TurnBuilder } from "./turn-builder.ts";

/** Where the provider is and how patient to be. Durations in milliseconds. */
export interface AnthropicModelOptions {
  /** Sent as a bearer token. */
  apiKey: string;
  /** Any server that speaks the Messages API. Default `https://api.anthropic.com`. */
  baseUrl?: string;
  /** Longest duration of one call, first byte to last included. Default 600,000. */
  timeoutMs?: number;
  /** Longest silence within a response, keep-alive pings counted as sound. Default 90,000. */
  idleTimeoutMs?: number;
  /** Default: the system clock. */
  clock?: Clock;
}

/** A complete message whose connection stays open this long is cut off: its turn is already there. */
const LINGER_MS = 1_000;

const silent = { error: ignore, warn: ignore, info: ignore, debug: ignore };

/** Creates the model. Opens no connection until the first call. Throws `invalid_config` without a key. */
export function createAnthropicModel(options: AnthropicModelOptions): Model {
  const { apiKey = "", baseUrl } = options ?? {};
  const problems = [
    ...(apiKey.trim() === "" ? ["apiKey is missing or empty"] : []),
    ...(baseUrl === undefined || /^https?:\/\/[^/]/.test(baseUrl)
      ? []
      : ["baseUrl must be http://… or https://…"]),
  ];
  if (problems.length > 0) {
    throw new SubagentError("invalid_config", `The model cannot be made: ${problems.join("; ")}.`, {
      problems,
    });
  }
  return new AnthropicModel(options);
}

class AnthropicModel implements Model {
  readonly #client: Anthropic;
  readonly #transport: Transport;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #secrets: readonly string[];
  readonly #provider: string;
  readonly #running = new Map<AbortController, Promise<ModelOutcome>>();
  #stopped: Promise<void> | undefined;

  constructor(options: AnthropicModelOptions) {
    this.#clock = options.clock ?? systemClock;
    this.#timeoutMs = options.timeoutMs ?? 600_000;
    this.#secrets = [options.apiKey];
    this.#transport = createTransport({ clock: this.#clock, idleTimeoutMs: options.idleTimeoutMs ?? 90_000 });
    this.#provider = providerOf(options);
    this.#client = createClient(options, this.#transport, this.#timeoutMs);
  }

  call(request: ModelRequest, options: CallOptions): Promise<ModelOutcome> {
    if (this.#stopped || options.signal.aborted) return Promise.resolve({ status: "aborted" });
    const abort = new AbortController();
    const outcome = this.#perform(request, options, abort);
    this.#running.set(abort, outcome);
    return outcome;
  }

  gateName(model: string): string {
    return `${this.#provider}/${model}`;
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    const running = [...this.#running.values()];
    for (const abort of this.#running.keys()) abort.abort();
    await Promise.all(running);
    await this.#transport.close();
  }

  /** `abort` ends the attempt whoever wants it ended: the caller, `stop`, the deadline, or a lingering server. */
  async #perform(request: ModelRequest, options: CallOptions, abort: AbortController): Promise<ModelOutcome> {
    const builder = new TurnBuilder(request.model);
    const onAbort = () => abort.abort();
    options.signal.addEventListener("abort", onAbort, { once: true });
    let timedOut = false;
    const deadline = this.#clock.timeout(this.#timeoutMs, () => {
      timedOut = true;
      abort.abort();
    });
    try {
      await this.#receive(request, builder, abort, options);
      return { status: "turn", turn: builder.build() };
    } catch (error) {
      const usage = builder.started ? { usage: builder.usage } : {};
      if (timedOut) return { status: "failed", failure: deadlineFailure(this.#timeoutMs), ...usage };
      if (abort.signal.aborted) return { status: "aborted", ...usage };
      const failure = classify(error, { nowMs: this.#clock.now(), secrets: this.#secrets });
      return { status: "failed", failure, ...usage };
    } finally {
      deadline.cancel();
      options.signal.removeEventListener("abort", onAbort);
      this.#running.delete(abort);
    }
  }

  /** Feeds `builder` until its message is complete; raises whatever kept it from that. */
  async #receive(
    request: ModelRequest,
    builder: TurnBuilder,
    abort: AbortController,
    { onText, mayBegin }: CallOptions,
  ): Promise<void> {
    const stream = await openStream(this.#client, request, {
      signal: abort.signal,
      mayBegin: () => {
        if (mayBegin && !mayBegin()) abort.abort();
        return !abort.signal.aborted;
      },
    });
    let linger: { cancel(): void } | undefined;
    try {
      for await (const event of stream) {
        if (abort.signal.aborted) break;
        const text = builder.add(event);
        if (text && onText) notify(onText, text);
        if (builder.complete) linger ??= this.#clock.timeout(LINGER_MS, () => stream.controller.abort());
      }
    } catch (error) {
      if (!builder.complete) throw error;
    } finally {
      linger?.cancel();
    }
    if (builder.complete) return;
    if (builder.started || abort.signal.aborted) throw new TruncatedStreamError();
    throw new MalformedTurnError("the server did not answer with a message stream");
  }
}

const API_URL = "https://api.anthropic.com";

/** Host and credential as far as others may know them. */
function providerOf({ apiKey, baseUrl = API_URL }: AnthropicModelOptions): string {
  const digest = createHash("sha256").update(`subagent-queue gate ${apiKey}`).digest("hex");
  const [, host = ""] = /^https?:\/\/(?:[^/]*@)?([^/?#]+)/.exec(baseUrl) ?? [];
  return `${host}/${digest.slice(0, 8)}`;
}

/** The API version this adapter is written against; what the SDK of the pinned version sends by itself. */
const API_VERSION = "2026-10-21";

/** Headers the SDK or a tracing propagator sets. `ANTHROPIC_CUSTOM_HEADERS` can add others; they stay here. */
const SENT_HEADER =
  /^(?:accept|authorization|content-type|user-agent|anthropic-version|idempotency-key|x-stainless-.+|traceparent|tracestate|baggage|b3|x-b3-.+)$/i;

function createClient(options: AnthropicModelOptions, transport: Transport, timeoutMs: number): Anthropic {
  return new Anthropic({
    apiKey: options.apiKey,
    baseURL: options.baseUrl ?? API_URL,
    webhookKey: null,
    maxRetries: 0,
    timeout: timeoutMs,
    logLevel: "off",
    logger: silent,
    fetch: (url, init) => {
      const all = init?.headers instanceof Headers ? init.headers : new Headers(init?.headers);
      const headers = [...all].filter(([name]) => SENT_HEADER.test(name));
      const body = typeof init?.body === "string" ? wellFormedJson(init.body) : init?.body;
      return transport.fetch(url, { ...init, headers, body });
    },
  });
}

/** Ids for which `messages.create` writes a deprecation notice to the console, whatever the client's logger. */
const ANNOUNCED_DEPRECATED: ReadonlySet<string> = new Set([
  "claude-sonnet-4-5",
  "claude-sonnet-4-5-20250929",
]);

/** The events of a response, unchecked, and the handle that cuts it off. */
interface EventStream extends AsyncIterable<unknown> {
  controller: AbortController;
}

/** Given per request, these headers win over anything the environment put into the client's defaults. */
function openStream(
  client: Anthropic,
  request: ModelRequest,
  { signal, mayBegin }: Pick<TransportInit, "mayBegin"> & { signal: AbortSignal },
): Promise<EventStream> {
  // The SDK hands these on to its `fetch` as they are; it knows the first only.
  const fetchOptions = { redirect: "manual" as const, mayBegin };
  const body = toMessageParams(request);
  const headers: Record<string, string> = {
    authorization: `Bearer ${client.apiKey}`,
    "anthropic-version": API_VERSION,
    ...(request.idempotencyKey !== undefined && { "idempotency-key": request.idempotencyKey }),
  };
  if (ANNOUNCED_DEPRECATED.has(request.model)) {
    return client.post<EventStream>("/v1/messages", { body, headers, signal, fetchOptions, stream: true });
  }
  return client.messages.create(body, { headers, signal, fetchOptions });
}

/** A listener is not part of the call: its failure must not cost a paid answer. */
function notify(onText: (delta: string) => void, text: string): void {
  try {
    onText(text);
  } catch {
    // The contract of `onText` says that what it throws is ignored.
  }
}

function ignore(): void {}

function deadlineFailure(timeoutMs: number): ModelFailure {
  return { kind: "timeout", retryable: true, message: `the call took longer than ${timeoutMs} ms` };
}
