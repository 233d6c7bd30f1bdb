/**
 * The Anthropic model: the only user of the SDK's client; one client and one connection pool per instance.
 *
 * Owns the client and the outcome of a call. `transport.ts` owns connections and time limits, `stream.ts` and
 * `answer-draft.ts` the response, `failure.ts` the meaning of errors, the worker all retries.
 *
 * Invariants
 * 1. `call` never rejects and never outlives its control, `timeoutMs`, or `stop`.
 * 2. A call that ended without an answer has given up its connection.
 * 3. Nothing is read from the environment: key, host and headers are arguments.
 * 4. Nothing is written to the console.
 *
 * A call makes no header object, timer, listener, controller or abort signal.
 */
import { createHash } from "node:crypto";
import { Anthropic, APIError } from "@anthropic-ai/sdk";
import { CLOCK_FORM, type Clock, isClock, systemClock } from "../../../shared/clock.ts";
import { keptForV8 } from "../../../shared/hidden-class.ts";
import { COUNT, type OptionForms, optionProblems, refuseProblems } from "../../../shared/options.ts";
import { jsonIn } from "../../../shared/protocol/text.ts";
import { keepSecret } from "../../../shared/secrets.ts";
import type { CallControl, CallOutcome, Model, ModelRequest } from "../model.ts";
import { requestBody } from "../request.ts";
import { AnswerDraft } from "./answer-draft.ts";
import { connectionProblems } from "./connections.ts";
import { CallAbortedError, classify, MalformedAnswerError } from "./failure.ts";
import { type BodyReader, readerOf } from "./stream.ts";
import { type Exchange, type ExchangePlan, Transport } from "./transport.ts";

/** Address, credential and time limits of the provider. Durations in milliseconds. */
export interface AnthropicModelOptions {
  /** Sent as a bearer token. */
  apiKey: string;
  /** Any server that speaks the Messages API. Default `https://api.anthropic.com`. */
  baseUrl?: string;
  /**
   * Longest duration of one call, from its start to the last byte. Default: 600,000, or `firstByteTimeoutMs` and the time that
   * its `maxTokens` may take, whichever is longer.
   */
  timeoutMs?: number;
  /** Longest silence within a response; keep-alive pings end a silence. Default 90,000. */
  idleTimeoutMs?: number;
  /**
   * Longest time until a response begins. Default 180,000. An unstreamed answer begins only when it is finished: it
   * additionally gets the time that its `maxTokens` may take.
   */
  firstByteTimeoutMs?: number;
  /** Maximum number of connections; further calls wait for one. Default: one for each call in progress. */
  connections?: number;
  /** Default: the system clock. */
  clock?: Clock;
}

const API_URL = "https://api.anthropic.com";
const MESSAGES_PATH = "/v1/messages";

/** The API version for which this adapter is written; the pinned version of the SDK sends the same by default. */
const API_VERSION = "2026-10-21";

/** Content types of a 200 response that may have been billed, even without a message; a proxy's page was not. */
const BILLED_TYPE = /^(?:application\/json|text\/event-stream)/i;

/** The SDK's own estimate of the time per token; an answer expected to take over ten minutes must be streamed. */
const MS_PER_TOKEN = 3_600_000 / 128_000;
const LONGEST_UNSTREAMED_TOKENS = 600_000 / MS_PER_TOKEN;
/** Least default of the longest duration of a call. */
const USUAL_TIMEOUT_MS = 600_000;

const DURATION = [
  (value: unknown) => Number.isFinite(value) && Number(value) > 0,
  "a number of milliseconds above 0",
] as const;

/** Text that a header can hold. */
const PRINTABLE_ASCII = /^[\x20-\x7e]+$/;

const FORMS: OptionForms<AnthropicModelOptions> = {
  apiKey: [
    (value) => typeof value === "string" && PRINTABLE_ASCII.test(value.trim()),
    "the key of the provider: one line of ASCII characters, not empty",
  ],
  baseUrl: [
    (value) => typeof value === "string" && /^https?:\/\/[^/]/.test(value) && URL.canParse(value),
    "http://… or https://…",
  ],
  timeoutMs: DURATION,
  idleTimeoutMs: DURATION,
  firstByteTimeoutMs: DURATION,
  connections: COUNT,
  clock: [isClock, CLOCK_FORM],
};
const REQUIRED: ReadonlySet<string> = new Set(["apiKey"]);

/**
 * Creates the model. Opens no connection until the first call. Throws `invalid_config` that names every invalid option,
 * because a misspelt `baseUrl` would send key and prompts to another provider, and in a runtime that replaces undici.
 */
export function createAnthropicModel(options: AnthropicModelOptions): Model {
  const wrong = optionProblems(options, FORMS, { maker: "this model", required: REQUIRED });
  refuseProblems("The model", [...wrong, ...connectionProblems()]);
  const { baseUrl = API_URL } = options;
  return new AnthropicModel({ ...options, baseUrl });
}

class AnthropicModel implements Model {
  readonly #client: Anthropic;
  readonly #transport: Transport;
  /** Names and values, alternating. */
  #headers: Promise<readonly string[]> | undefined;
  readonly #clock: Clock;
  readonly #timeouts: CallTimeouts;
  readonly #provider: string;
  #callsUnderWay = 0;
  #onLastCall: () => void = ignore;
  #stopped: Promise<void> | undefined;

  constructor(options: AnthropicModelOptions & { baseUrl: string }) {
    const { apiKey, baseUrl, connections, idleTimeoutMs = 90_000, clock = systemClock } = options;
    this.#clock = clock;
    const { timeoutMs, firstByteTimeoutMs = 180_000 } = options;
    this.#timeouts = { timeoutMs, firstByteTimeoutMs };
    keepSecret(apiKey);
    this.#provider = providerOf(apiKey, baseUrl);
    const url = new URL(baseUrl.replace(/\/$/, "") + MESSAGES_PATH);
    this.#transport = new Transport(url, { clock, idleTimeoutMs, connections });
    this.#client = clientFor(apiKey, baseUrl);
  }

  async call(request: ModelRequest, control: CallControl): Promise<CallOutcome> {
    if (this.#stopped) return { status: "aborted" };
    const promptBytes = () => Buffer.byteLength(request.head) + Buffer.byteLength(request.messages);
    const draft = new AnswerDraft(request.model, request.maxTokens, promptBytes);
    const exchange = this.#transport.prepare(new CallPlan(request, control, draft, this.#timeouts));
    control.abortCall = (reason) => exchange.abort(reason);
    this.#callsUnderWay += 1;
    let error: unknown;
    try {
      await this.#send(exchange);
    } catch (thrown) {
      error = thrown;
    }
    exchange.abort("the call is over");
    control.abortCall = null;
    this.#callsUnderWay -= 1;
    if (this.#callsUnderWay === 0) this.#onLastCall();
    return this.#outcomeOf(draft, error);
  }

  /** Resolves when the response is read. Rejects with the SDK's error for it, or with the error of the exchange. */
  async #send(exchange: Exchange): Promise<void> {
    this.#headers ??= commonHeaders(this.#client);
    const refusal = await this.#transport.send(exchange, await this.#headers);
    if (refusal) throw await errorOf(refusal);
  }

  limiterName(model: string): string {
    return `${this.#provider}/${model}`;
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    const lastCall = new Promise<void>((resolve) => {
      if (this.#callsUnderWay === 0) resolve();
      else this.#onLastCall = resolve;
    });
    await Promise.all([this.#transport.close(), lastCall]);
  }

  /** Returns the outcome. A complete message is the answer, however its connection ended. */
  #outcomeOf(draft: AnswerDraft, error: unknown): CallOutcome {
    let problem = error;
    if (error === undefined || draft.isComplete) {
      try {
        return { status: "answer", answer: draft.finish() };
      } catch (unusable) {
        problem = unusable;
      }
    }
    if (draft.mayBeBilled && problem instanceof MalformedAnswerError) draft.buy();
    const usage = draft.isBegun ? { usage: draft.usage } : {};
    if (problem instanceof CallAbortedError) return { status: "aborted", ...usage };
    const failure = classify(problem, { nowMs: this.#clock.now() });
    return { status: "failed", failure, ...usage };
  }
}

/** Time limits of the model, ms. */
interface CallTimeouts {
  /** Undefined: it depends on the tokens of the call. */
  timeoutMs: number | undefined;
  firstByteTimeoutMs: number;
}

/** Plan of one call for its exchange. */
class CallPlan implements ExchangePlan {
  readonly body: string;
  readonly headers: readonly string[];
  readonly timeoutMs: number;
  readonly firstByteTimeoutMs: number;
  readonly #control: CallControl;
  readonly #draft: AnswerDraft;
  readonly #isStreamed: boolean;

  constructor(request: ModelRequest, control: CallControl, draft: AnswerDraft, timeouts: CallTimeouts) {
    const isStreamed = request.stream || request.maxTokens > LONGEST_UNSTREAMED_TOKENS;
    const { timeoutMs, firstByteTimeoutMs } = timeouts;
    const wholeAnswerMs = request.maxTokens * MS_PER_TOKEN;
    this.body = requestBody(request, isStreamed);
    this.headers = headersOf(request);
    // Cut off before its tokens are written, a long answer would be paid for and bought again.
    this.timeoutMs = timeoutMs ?? Math.max(USUAL_TIMEOUT_MS, firstByteTimeoutMs + wholeAnswerMs);
    this.firstByteTimeoutMs = firstByteTimeoutMs + (isStreamed ? 0 : wholeAnswerMs);
    this.#control = control;
    this.#draft = draft;
    this.#isStreamed = isStreamed;
    keptForV8.plan = this;
  }

  get deadlineMs(): number {
    return this.#control.deadlineMs;
  }

  mayBegin(): boolean {
    return this.#control.mayBegin();
  }

  read(contentType: string): BodyReader {
    this.#draft.mayBeBilled = BILLED_TYPE.test(contentType);
    return readerOf(contentType, this.#isStreamed, this.#draft, this.#control.onText);
  }

  isComplete(): boolean {
    return this.#draft.isComplete;
  }
}

/** Returns the headers of this request only, names and values alternating. */
function headersOf(request: ModelRequest): readonly string[] {
  const { purchaseId, idempotencyKey = purchaseId, traceparent, beta } = request;
  const headers = ["idempotency-key", idempotencyKey];
  if (beta !== undefined) headers.push("anthropic-beta", beta);
  if (traceparent !== undefined) headers.push("traceparent", traceparent);
  return headers;
}

/**
 * Headers of the SDK that are sent. It drops headers from `ANTHROPIC_CUSTOM_HEADERS` and the eight `x-stainless-…` headers
 * that describe this machine: each costs every call, and no answer depends on them.
 */
const SENT_HEADER = /^(?:accept|authorization|content-type|user-agent|anthropic-version)$/i;

const silent = { error: ignore, warn: ignore, info: ignore, debug: ignore };

/** Creates the SDK's client. It sends no requests: each would cost a controller, a log line and eight promises. */
function clientFor(apiKey: string, baseURL: string): Anthropic {
  return new Anthropic({
    apiKey,
    baseURL,
    webhookKey: null,
    logLevel: "off",
    logger: silent,
    openTelemetry: false,
  });
}

/** Returns the headers of every request. Headers given here override those that the environment puts into the client. */
async function commonHeaders(client: Anthropic): Promise<readonly string[]> {
  const { req } = await client.buildRequest({
    method: "post",
    path: MESSAGES_PATH,
    headers: {
      authorization: `Bearer ${client.apiKey}`,
      "anthropic-version": API_VERSION,
      "content-type": "application/json",
    },
  });
  return [...req.headers].filter(([name]) => SENT_HEADER.test(name)).flat();
}

/** Makes the SDK's error from a response that is no success. */
async function errorOf(refusal: Response): Promise<APIError> {
  const text = await refusal.text();
  const body = jsonIn(text);
  const said = typeof body === "object" && body !== null ? body : undefined;
  return APIError.generate(refusal.status, said, said ? undefined : text, refusal.headers);
}

/** Returns host and a digest of the credential, which may be shown to others. */
function providerOf(apiKey: string, baseUrl: string): string {
  const digest = createHash("sha256").update(`subagent-queue limiter ${apiKey}`).digest("hex");
  return `${new URL(baseUrl).host}/${digest.slice(0, 8)}`;
}

function ignore(): void {}
