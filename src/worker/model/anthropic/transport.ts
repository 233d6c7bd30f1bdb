/**
 * Transport: HTTP/1.1 keep-alive connections to one provider, a raw handler on each. What comes from the socket goes to
 * a {@link BodyReader} as it is: no `Headers`, `Response` or stream of the platform in between.
 *
 * Owns: the exchanges under way, and the one timer that cuts off those which take too long. Its neighbours:
 * `connections.ts` owns the sockets, `stream.ts` what a body means, `model.ts` the call, the SDK the headers.
 *
 * Invariants
 * 1. An exchange ends once: with its response, or with an error, of which `cutOff` says whether this process caused it.
 * 2. An aborted or failed exchange gives its connection up; a response read to its end gives it back to the pool.
 * 3. After an abort nothing is sent, even if the connection opens later.
 * 4. There is one timer, however many exchanges are under way; a byte that arrives costs no timer.
 * 5. Redirects are not followed and nothing is decompressed: credentials go to one origin only.
 */
import type { Client, Dispatcher } from "undici";
import type { Clock } from "../../../shared/clock.ts";
import { lastOf } from "../../../shared/hidden-class.ts";
import { type Link, LinkedList } from "../../../shared/linked-list.ts";
import { cutBelowKept } from "../../../shared/protocol/text.ts";
import { type ConnectionOptions, Connections } from "./connections.ts";
import { CallAbortedError, MalformedAnswerError, TimeLimitError } from "./failure.ts";
import type { BodyReader } from "./stream.ts";

/** Durations in milliseconds. */
export interface TransportOptions extends ConnectionOptions {
  clock: Clock;
  /** Longest silence within a response body. */
  idleTimeoutMs: number;
}

/** What an exchange sends, how long it may take, and what becomes of its response. */
export interface ExchangePlan {
  body: string;
  /** Header names and values by turns, beside those that the client gives every request. */
  headers: readonly string[];
  /** Asked when a connection is there, before the first byte is written; false ends the exchange as aborted. */
  mayBegin(): boolean;
  /** Makes the reader for the body of a successful response. */
  read(contentType: string): BodyReader;
  /** Whether the reader has all it needs: a connection that stays open after that is cut off soon. */
  isComplete(): boolean;
  /** Monotonic ms at which the caller's own time is over: the exchange ends as aborted. */
  deadlineMs: number;
  /** Longest duration of the whole exchange. */
  timeoutMs: number;
  /** Longest time to the first byte of the response. */
  firstByteTimeoutMs: number;
}

/** Exchanges with one address. */
export class Transport {
  readonly #path: string;
  readonly #connections: Connections;
  readonly #watch: Watch;
  #closed: Promise<void> | undefined;

  /** Opens no connection until the first exchange. @param url the one address that every exchange goes to */
  constructor(url: URL, options: TransportOptions) {
    this.#path = url.pathname + url.search;
    this.#connections = new Connections(url.origin, options);
    this.#watch = new Watch(options.clock, options.idleTimeoutMs);
  }

  /** Makes an exchange that has not begun; it can be ended already. */
  prepare(plan: ExchangePlan): Exchange {
    return new Exchange(plan, this.#connections, this.#watch);
  }

  /**
   * Sends the request. Resolves when the response is read: with nothing where it is a success, for the reader has it, else with
   * the refusal. Rejects with what ended the exchange. @param headers names and values by turns
   */
  send(exchange: Exchange, headers: readonly string[]): Promise<Response | undefined> {
    return exchange.start(this.#path, headers);
  }

  /** Ends every exchange as aborted and destroys every connection. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  #close(): Promise<void> {
    this.#watch.stop();
    return this.#connections.close();
  }
}

/** Bounds of HTTP; no `Response` can be made of another status. */
const LAST_STATUS = 599;
/** Of an error's body no more is kept: a sentence stands in its beginning. */
const ERROR_BODY_BYTES = 64 * 1024;
/** A complete message whose connection stays open this long is cut off: the answer is already there. */
const LINGER_MS = 1_000;

/** The plan of an exchange that has ended. */
const OVER: ExchangePlan = {
  body: "",
  headers: [],
  mayBegin: () => false,
  read: () => ({ feed: ignore, end: ignore }),
  isComplete: () => true,
  deadlineMs: 0,
  timeoutMs: 0,
  firstByteTimeoutMs: 0,
};

/** One request and its response, from dispatch to the last byte. */
export class Exchange implements Dispatcher.DispatchHandler {
  #plan: ExchangePlan;
  readonly #connections: Connections;
  readonly #watch: Watch;
  readonly #startedMs: number;
  /** Monotonic ms of the last byte; undefined before the headers. */
  #lastByteMs: number | undefined;
  #completeMs: number | undefined;
  #resolve: (refusal: Response | undefined) => void = ignore;
  #reject: (error: Error) => void = ignore;
  #client: Client | undefined;
  #abortRequest: ((error?: Error) => void) | undefined;
  #status = 0;
  #rawHeaders: readonly Buffer[] = [];
  #reader: BodyReader | undefined;
  #errorBody: Buffer[] = [];
  #errorBytes = 0;
  #error: Error | undefined;
  #isDone = false;
  readonly #link: Link<Exchange>;

  constructor(plan: ExchangePlan, connections: Connections, watch: Watch) {
    this.#plan = plan;
    this.#connections = connections;
    this.#watch = watch;
    this.#startedMs = watch.now();
    this.#link = watch.add(this);
  }

  /** What ended it without a response, if this process did or the body was unusable. */
  get error(): Error | undefined {
    return this.#error;
  }

  /** Sends the request, unless the exchange has ended. */
  start(path: string, headers: readonly string[]): Promise<Response | undefined> {
    return new Promise((resolve, reject) => {
      if (this.#error) return reject(this.#error);
      this.#resolve = resolve;
      this.#reject = reject;
      this.#connections.take((client) => {
        if (this.#isDone) return this.#connections.release(client);
        this.#client = client;
        const { body } = this.#plan;
        const all = [...headers, ...this.#plan.headers];
        client.dispatch({ path, method: "POST", headers: all, body, blocking: false }, this);
      });
    });
  }

  /** Ends it at once, as aborted. */
  abort(reason: string): void {
    if (!this.#isDone) this.#fail(new CallAbortedError(reason));
  }

  onConnect(abort: (error?: Error) => void): void {
    this.#abortRequest = abort;
    // It holds the request of undici, and with it this exchange.
    lastOf.request = abort;
    if (this.#error) abort(this.#error);
    else if (!this.#plan.mayBegin()) this.abort("the call may not begin any more");
  }

  onHeaders(status: number, rawHeaders: Buffer[]): boolean {
    if (status < 200 || this.#isDone) return true;
    this.#status = status;
    this.#rawHeaders = rawHeaders;
    this.#lastByteMs = this.#watch.now();
    this.#watch.expect(this);
    if (status > LAST_STATUS)
      this.#fail(new MalformedAnswerError(`the server answered with HTTP status ${status}`));
    else if (status < 300) this.#reader = this.#plan.read(headerOf(rawHeaders, "content-type"));
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.#isDone) return true;
    this.#lastByteMs = this.#watch.now();
    if (!this.#reader) {
      this.#takeErrorBody(chunk);
      return true;
    }
    const problem = problemOf(() => this.#reader?.feed(chunk));
    if (problem) this.#fail(problem);
    else if (this.#completeMs === undefined && this.#plan.isComplete()) {
      this.#completeMs = this.#lastByteMs;
      this.#watch.expect(this);
    }
    return true;
  }

  onComplete(): void {
    const problem = this.#reader && problemOf(() => this.#reader?.end(true));
    if (problem) this.#fail(problem);
    else this.#succeed(this.#reader ? undefined : this.#errorResponse());
  }

  onError(error: Error): void {
    this.#fail(error);
  }

  /** Monotonic ms at which it has taken too long, unless bytes come before. */
  limitMs(idleTimeoutMs: number): number {
    const { deadlineMs, timeoutMs, firstByteTimeoutMs } = this.#plan;
    const silentMs =
      this.#lastByteMs === undefined
        ? this.#startedMs + firstByteTimeoutMs
        : this.#lastByteMs + idleTimeoutMs;
    const lingerMs = this.#completeMs === undefined ? Number.POSITIVE_INFINITY : this.#completeMs + LINGER_MS;
    return Math.min(deadlineMs, this.#startedMs + timeoutMs, silentMs, lingerMs);
  }

  /** Ends it: its time is over. */
  expire(nowMs: number): void {
    const { deadlineMs, timeoutMs } = this.#plan;
    if (nowMs >= deadlineMs) this.abort("the caller's time is over");
    else if (nowMs >= this.#startedMs + timeoutMs)
      this.#fail(new TimeLimitError(`the call took longer than ${timeoutMs} ms`));
    else {
      const silentMs = Math.round(nowMs - (this.#lastByteMs ?? this.#startedMs));
      this.#fail(new TimeLimitError(`the response stalled: nothing arrived for ${silentMs} ms`));
    }
  }

  /** A longer body is not waited for: it may never end. */
  #takeErrorBody(chunk: Buffer): void {
    this.#errorBytes += chunk.length;
    this.#errorBody.push(chunk);
    if (this.#errorBytes >= ERROR_BODY_BYTES) this.#fail(new MalformedAnswerError("the refusal is too long"));
  }

  /** The refusal, for the SDK to read, whatever its headers and its body are made of. */
  #errorResponse(): Response {
    const text = cutBelowKept(Buffer.concat(this.#errorBody).toString("utf8", 0, ERROR_BODY_BYTES));
    const headers = headersOf(this.#rawHeaders);
    return new Response(isBodyless(this.#status) ? null : text, { status: this.#status, headers });
  }

  #fail(error: Error): void {
    if (this.#isDone) return;
    this.#end();
    const isRefused = this.#status >= 300 && this.#status <= LAST_STATUS;
    if (isRefused && !(error instanceof CallAbortedError)) {
      // A refusal stands although its body stalls or breaks off.
      this.#resolve(this.#errorResponse());
    } else {
      this.#error = error;
      // Half a message may still say what it cost.
      problemOf(() => this.#reader?.end(false));
      this.#reject(error);
    }
    this.#abortRequest?.(error);
    if (this.#client) this.#connections.discard(this.#client);
    this.#forget();
  }

  #succeed(refusal: Response | undefined): void {
    if (this.#isDone) return;
    this.#end();
    if (this.#client) this.#connections.release(this.#client);
    this.#resolve(refusal);
    this.#forget();
  }

  #end(): void {
    this.#isDone = true;
    this.#watch.delete(this.#link);
  }

  /** What ended holds nothing: an exchange that has grown old while it was under way is collected long after the call. */
  #forget(): void {
    this.#plan = OVER;
    this.#reader = undefined;
    this.#abortRequest = undefined;
    this.#rawHeaders = [];
  }
}

/** The exchanges under way and the one timer that looks after them. */
class Watch {
  readonly #clock: Clock;
  readonly #idleTimeoutMs: number;
  readonly #exchanges = new LinkedList<Exchange>();
  #timer: { cancel(): void } | undefined;
  /** Monotonic ms at which the timer fires. */
  #dueMs = Number.POSITIVE_INFINITY;

  constructor(clock: Clock, idleTimeoutMs: number) {
    this.#clock = clock;
    this.#idleTimeoutMs = idleTimeoutMs;
  }

  now(): number {
    return this.#clock.monotonicMs();
  }

  add(exchange: Exchange): Link<Exchange> {
    const link = this.#exchanges.add(exchange);
    this.expect(exchange);
    return link;
  }

  /** Sees to it that the timer fires when the exchange has taken too long. */
  expect(exchange: Exchange): void {
    const limitMs = exchange.limitMs(this.#idleTimeoutMs);
    if (limitMs < this.#dueMs) this.#arm(limitMs);
  }

  /** With the last exchange the timer goes too: it would keep the process alive. */
  delete(link: Link<Exchange>): void {
    link.remove();
    if (!this.#exchanges.isEmpty) return;
    this.#timer?.cancel();
    this.#dueMs = Number.POSITIVE_INFINITY;
  }

  stop(): void {
    for (const exchange of this.#exchanges) exchange.abort("the model was stopped");
  }

  #arm(dueMs: number): void {
    this.#timer?.cancel();
    this.#dueMs = dueMs;
    this.#timer = this.#clock.timeout(Math.max(0, dueMs - this.now()), () => this.#look());
  }

  #look(): void {
    const nowMs = this.now();
    let nextMs = Number.POSITIVE_INFINITY;
    this.#dueMs = nextMs;
    for (const exchange of this.#exchanges) {
      const limitMs = exchange.limitMs(this.#idleTimeoutMs);
      if (limitMs <= nowMs) exchange.expire(nowMs);
      else nextMs = Math.min(nextMs, limitMs);
    }
    if (nextMs < this.#dueMs) this.#arm(nextMs);
  }
}

/** The value of a header, in lower case; "" without one. */
function headerOf(raw: readonly Buffer[], name: string): string {
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const key = raw[i];
    if (key?.length === name.length && key.toString("latin1").toLowerCase() === name)
      return String(raw[i + 1]).toLowerCase();
  }
  return "";
}

/** Header fields for the SDK: a character a byte, as the platform takes them. */
function headersOf(raw: readonly Buffer[]): Headers {
  const headers = new Headers();
  for (let i = 0; i + 1 < raw.length; i += 2)
    headers.append(raw[i]?.toString("latin1") ?? "", raw[i + 1]?.toString("latin1") ?? "");
  return headers;
}

function isBodyless(status: number): boolean {
  return status === 304;
}

/** What `read` throws. */
function problemOf(read: () => void): Error | undefined {
  try {
    read();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error : new MalformedAnswerError("something that is no error was thrown");
  }
}

function ignore(): void {}
