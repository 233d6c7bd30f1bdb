/**
 * Transport: HTTP/1.1 keep-alive connections to one provider, a raw handler on each. Bytes from the socket go unchanged to a
 * {@link BodyReader}, without `Headers`, `Response` or stream of the platform.
 *
 * Owns the exchanges in progress, and the one timer that ends slow ones. `connections.ts` owns the sockets, `stream.ts` the
 * meaning of a body, `model.ts` the call, the SDK the headers.
 *
 * Invariants
 * 1. An exchange ends once: with its response, or with an error.
 * 2. An aborted or failed exchange gives up its connection, or its place in the line for one; one whose response was read
 *    to the end returns it to the pool.
 * 3. After an abort nothing is sent, even if the connection opens later.
 * 4. There is one timer for all exchanges in progress; an arriving byte costs no timer.
 * 5. Redirects are not followed and nothing is decompressed: credentials go to one origin only.
 */
import type { Client, Dispatcher } from "undici";
import type { Clock } from "../../../shared/clock.ts";
import { keptForV8 } from "../../../shared/hidden-class.ts";
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

/** Content, time limits and response reader of an exchange. */
export interface ExchangePlan {
  body: string;
  /** Header names and values, alternating, besides those that the client gives every request. */
  headers: readonly string[];
  /** Called when a connection is available, before the first byte is written; false ends the exchange as aborted. */
  mayBegin(): boolean;
  /** Returns the reader for the body of a successful response. */
  read(contentType: string): BodyReader;
  /** Checks whether the reader has all it needs: a connection that stays open longer is soon closed. */
  isComplete(): boolean;
  /** Monotonic ms of the caller's deadline: then the exchange ends as aborted. */
  deadlineMs: number;
  /** Longest duration of the whole exchange, from the moment at which it has a connection. */
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

  /** Opens no connection until the first exchange. @param url the one address of all exchanges */
  constructor(url: URL, options: TransportOptions) {
    this.#path = url.pathname + url.search;
    this.#connections = new Connections(url.origin, options);
    this.#watch = new Watch(options.clock, options.idleTimeoutMs);
  }

  /** Creates an exchange that has not begun; it can already be aborted. */
  prepare(plan: ExchangePlan): Exchange {
    return new Exchange(plan, this.#connections, this.#watch);
  }

  /**
   * Sends the request. Resolves when the response is read: to undefined for a success, because the reader has it, otherwise
   * to the refusal. Rejects with the error that ended the exchange. @param headers names and values, alternating
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

/** Highest HTTP status; no `Response` can be made with a higher one. */
const LAST_STATUS = 599;
/** Bytes kept of an error's body: its beginning has the message. */
const ERROR_BODY_BYTES = 64 * 1024;
/** A connection that stays open this long after a complete message is closed: the answer has already arrived. */
const LINGER_MS = 1_000;

/** Plan of an exchange that has ended. */
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
  /** Monotonic ms at which the exchange got its connection. */
  #startedMs = 0;
  /** Monotonic ms of the last byte; undefined before the headers. */
  #lastByteMs: number | undefined;
  #completeMs: number | undefined;
  #resolve: (refusal: Response | undefined) => void = ignore;
  #reject: (error: Error) => void = ignore;
  #client: Client | undefined;
  /** Place in the line of those that wait for a connection. */
  #place: Link<(client: Client) => void> | undefined;
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
    this.#link = watch.add(this);
  }

  /** Sends the request, unless the exchange has ended. */
  start(path: string, headers: readonly string[]): Promise<Response | undefined> {
    return new Promise((resolve, reject) => {
      if (this.#error) return reject(this.#error);
      this.#resolve = resolve;
      this.#reject = reject;
      this.#place = this.#connections.take((client) => {
        this.#client = client;
        this.#startedMs = this.#watch.now();
        this.#watch.expect(this);
        const { body } = this.#plan;
        const all = [...headers, ...this.#plan.headers];
        client.dispatch({ path, method: "POST", headers: all, body, blocking: false }, this);
      });
    });
  }

  /** Ends the exchange at once, as aborted. */
  abort(reason: string): void {
    this.#fail(new CallAbortedError(reason));
  }

  onConnect(abort: (error?: Error) => void): void {
    this.#abortRequest = abort;
    // `abort` references undici's request, and through it this exchange.
    keptForV8.request = abort;
    const nowMs = this.#watch.now();
    if (this.#error) abort(this.#error);
    else if (nowMs >= this.#plan.deadlineMs) this.expire(nowMs);
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
    const problem = errorThrownBy(() => this.#reader?.feed(chunk));
    if (problem) this.#fail(problem);
    else if (this.#completeMs === undefined && this.#plan.isComplete()) {
      this.#completeMs = this.#lastByteMs;
      this.#watch.expect(this);
    }
    return true;
  }

  onComplete(): void {
    const problem = this.#reader && errorThrownBy(() => this.#reader?.end(true));
    if (problem) this.#fail(problem);
    else this.#succeed(this.#reader ? undefined : this.#errorResponse());
  }

  onError(error: Error): void {
    this.#fail(error);
  }

  /** Returns the monotonic ms at which it times out unless bytes arrive before. */
  limitMs(idleTimeoutMs: number): number {
    const { deadlineMs, timeoutMs, firstByteTimeoutMs } = this.#plan;
    // It waits for a connection: the provider is not silent, because nothing was sent.
    if (!this.#client) return deadlineMs;
    const silentMs =
      this.#lastByteMs === undefined
        ? this.#startedMs + firstByteTimeoutMs
        : this.#lastByteMs + idleTimeoutMs;
    const lingerMs = this.#completeMs === undefined ? Number.POSITIVE_INFINITY : this.#completeMs + LINGER_MS;
    return Math.min(deadlineMs, this.#startedMs + timeoutMs, silentMs, lingerMs);
  }

  /** Ends an exchange that has timed out. */
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

  /** Keeps the body of an error. Ends the exchange if the body is too long, because it may never end. */
  #takeErrorBody(chunk: Buffer): void {
    this.#errorBytes += chunk.length;
    this.#errorBody.push(chunk);
    if (this.#errorBytes >= ERROR_BODY_BYTES) this.#fail(new MalformedAnswerError("the refusal is too long"));
  }

  /** Makes the refusal a `Response` for the SDK, whatever its headers and its body contain. */
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
      // A refusal is valid even if its body stalls or breaks off.
      this.#resolve(this.#errorResponse());
    } else {
      this.#error = error;
      // Half a message may still report its token counts.
      errorThrownBy(() => this.#reader?.end(false));
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
    // Left in the line, it would be handed a connection that others wait for.
    this.#place?.remove();
    this.#watch.delete(this.#link);
  }

  /** Drops all references: the garbage collector may free a long-lived exchange only long after the call. */
  #forget(): void {
    this.#plan = OVER;
    this.#reader = undefined;
    this.#abortRequest = undefined;
    this.#rawHeaders = [];
  }
}

/** The exchanges in progress and their one timer. */
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

  /** Ensures that the timer fires when the exchange times out. */
  expect(exchange: Exchange): void {
    const limitMs = exchange.limitMs(this.#idleTimeoutMs);
    if (limitMs < this.#dueMs) this.#arm(limitMs);
  }

  /** Removes an exchange; with the last one cancels the timer, which would keep the process alive. */
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
    this.#timer = this.#clock.timeout(Math.max(0, dueMs - this.now()), () => this.#expireDue());
  }

  #expireDue(): void {
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

/** Returns the value of a header, in lower case; "" if absent. */
function headerOf(raw: readonly Buffer[], name: string): string {
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const key = raw[i];
    if (key?.length === name.length && key.toString("latin1").toLowerCase() === name)
      return String(raw[i + 1]).toLowerCase();
  }
  return "";
}

/** Returns header fields for the SDK: one character per byte, as the platform expects. */
function headersOf(raw: readonly Buffer[]): Headers {
  const headers = new Headers();
  for (let i = 0; i + 1 < raw.length; i += 2)
    headers.append(raw[i]?.toString("latin1") ?? "", raw[i + 1]?.toString("latin1") ?? "");
  return headers;
}

function isBodyless(status: number): boolean {
  return status === 304;
}

/** Returns the error that `read` throws. */
function errorThrownBy(read: () => void): Error | undefined {
  try {
    read();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error : new MalformedAnswerError("something that is no error was thrown");
  }
}

function ignore(): void {}
