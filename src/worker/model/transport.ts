/**
 * Transport: HTTP/1.1 keep-alive connections to the provider, handed to the SDK as its `fetch`.
 *
 * Owns: the connection pool, and the silence of a response body. Its neighbour `anthropic.ts` owns the time of a
 * whole call and what a response means; the SDK owns headers and body of the request.
 *
 * Invariants
 * 1. A response body either ends, or errors: with the abort reason, with {@link TransportTimeoutError} after
 *    `idleTimeoutMs` without a byte, or with what the socket said.
 * 2. An aborted or failed request gives its socket up; a response read to its end gives it back to the pool.
 * 3. A body is read from the socket only as fast as its reader takes it.
 * 4. A request that may not begin any more leaves no byte, though its connection was long in coming.
 * 5. Redirects are not followed and nothing is decompressed: credentials go to one origin only.
 */
import { Agent, type Dispatcher } from "undici";
import type { Clock } from "../../shared/clock.ts";
import { MalformedTurnError, TransportTimeoutError } from "./fault.ts";

/** How a transport connects. Durations in milliseconds. */
export interface TransportOptions {
  clock: Clock;
  /** Longest silence within a response body. Default 90,000. */
  idleTimeoutMs?: number;
  /** Longest time to establish a connection. Default 10,000. */
  connectTimeoutMs?: number;
  /** How long an unused connection is kept. Default 30,000; a shorter hint of the server wins. */
  keepAliveMs?: number;
  /** Most connections per origin; further requests queue. Default 256. */
  connections?: number;
  /** Largest response body. Default 64 MiB. */
  maxResponseBytes?: number;
}

/** What `fetch` takes, and the last word on whether the request is sent. */
export interface TransportInit extends RequestInit {
  /** Asked when a connection is there, before the first byte is written; false rejects the request as aborted. */
  mayBegin?: () => boolean;
}

/** A pool of connections behind the signature of `fetch`. */
export interface Transport {
  /**
   * Sends one request. Takes a URL (string or URL), a string body, headers, a method and a signal: what the SDK
   * sends, not all of `fetch`. Rejects with the abort reason or the socket's error, never because of a status.
   */
  fetch(input: string | URL | Request, init?: TransportInit): Promise<Response>;
  /** Destroys every connection; running requests fail. Idempotent. */
  close(): Promise<void>;
}

/** A body holds at most about this many unread bytes before its socket is paused. */
const UNREAD_BYTES = 64 * 1024;

/** Beyond it a number is no HTTP status, and no `Response` can be made of it. */
const LAST_STATUS = 599;

/** Opens no connection until the first request. */
export function createTransport(options: TransportOptions): Transport {
  const { clock, idleTimeoutMs = 90_000 } = options;
  const agent = new Agent({
    connections: options.connections ?? 256,
    keepAliveTimeout: options.keepAliveMs ?? 30_000,
    connectTimeout: options.connectTimeoutMs ?? 10_000,
    maxResponseSize: options.maxResponseBytes ?? 64 * 1024 * 1024,
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  let closed: Promise<void> | undefined;
  return {
    fetch: (input, init = {}) => {
      const url = new URL(input instanceof Request ? input.url : input);
      const exchange = new Exchange(clock, idleTimeoutMs, init);
      return exchange.start(agent, {
        origin: url.origin,
        path: url.pathname + url.search,
        method: methodOf(init.method),
        headers: Array.isArray(init.headers) ? init.headers.flat() : [...new Headers(init.headers)].flat(),
        body: typeof init.body === "string" ? init.body : null,
      });
    },
    close: () => {
      closed ??= agent.destroy();
      return closed;
    },
  };
}

function methodOf(method: string | undefined): "GET" | "POST" {
  return method?.toUpperCase() === "POST" ? "POST" : "GET";
}

/** One request and its response, from dispatch to the last byte. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #clock: Clock;
  readonly #idleTimeoutMs: number;
  readonly #signal: AbortSignal | undefined;
  readonly #mayBegin: () => boolean;
  readonly #onAbort = () => this.#fail(asError(this.#signal?.reason));
  #resolve: (response: Response) => void = () => {};
  #reject: (error: Error) => void = () => {};
  #connection: Dispatcher.DispatchController | undefined;
  #body: ReadableStreamDefaultController<Uint8Array> | undefined;
  #idle: { cancel(): void } | undefined;
  #lastByteMs = 0;
  #error: Error | undefined;
  #done = false;

  constructor(clock: Clock, idleTimeoutMs: number, { signal, mayBegin = () => true }: TransportInit) {
    this.#clock = clock;
    this.#idleTimeoutMs = idleTimeoutMs;
    this.#signal = signal ?? undefined;
    this.#mayBegin = mayBegin;
  }

  start(agent: Agent, request: Dispatcher.DispatchOptions): Promise<Response> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      if (this.#signal?.aborted) return this.#onAbort();
      this.#signal?.addEventListener("abort", this.#onAbort, { once: true });
      agent.dispatch(request, this);
    });
  }

  onRequestStart(connection: Dispatcher.DispatchController): void {
    this.#connection = connection;
    if (!this.#error && !this.#mayBegin()) this.#fail(asError(undefined));
    else if (this.#error) connection.abort(this.#error);
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Record<string, unknown>): void {
    if (status < 200 || this.#done) return;
    if (status > LAST_STATUS) {
      this.#fail(new MalformedTurnError(`the server answered with HTTP status ${status}`));
      return;
    }
    const stream = new ReadableStream<Uint8Array>(
      {
        start: (body) => {
          this.#body = body;
        },
        pull: () => this.#resume(),
        cancel: (reason) => this.#fail(asError(reason)),
      },
      { highWaterMark: UNREAD_BYTES, size: (chunk) => chunk.byteLength },
    );
    this.#lastByteMs = this.#clock.monotonicMs();
    this.#watch(this.#idleTimeoutMs);
    const bodyless = status === 204 || status === 205 || status === 304;
    this.#resolve(new Response(bodyless ? null : stream, { status, headers: headerPairs(headers) }));
  }

  onResponseData(connection: Dispatcher.DispatchController, chunk: Uint8Array): void {
    if (this.#done || !this.#body) return;
    this.#lastByteMs = this.#clock.monotonicMs();
    this.#body.enqueue(chunk);
    if ((this.#body.desiredSize ?? 0) <= 0) connection.pause();
  }

  onResponseEnd(): void {
    if (this.#finish()) this.#body?.close();
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.#fail(error);
  }

  /** Silence counts from here: while the socket was paused nothing could arrive. */
  #resume(): void {
    if (!this.#connection?.paused) return;
    this.#lastByteMs = this.#clock.monotonicMs();
    this.#connection.resume();
  }

  /** One timer per response, re-armed only when it fires: silence is measured, not counted per chunk. */
  #watch(ms: number): void {
    this.#idle = this.#clock.timeout(ms, () => {
      const silentMs = this.#clock.monotonicMs() - this.#lastByteMs;
      if (this.#connection?.paused) this.#watch(this.#idleTimeoutMs);
      else if (silentMs >= this.#idleTimeoutMs) this.#fail(new TransportTimeoutError(silentMs));
      else this.#watch(this.#idleTimeoutMs - silentMs);
    });
  }

  #fail(error: Error): void {
    if (!this.#finish()) return;
    this.#error = error;
    this.#connection?.abort(error);
    this.#body?.error(error);
    // Once there is a response this says nothing any more.
    this.#reject(error);
  }

  #finish(): boolean {
    if (this.#done) return false;
    this.#done = true;
    this.#idle?.cancel();
    this.#signal?.removeEventListener("abort", this.#onAbort);
    return true;
  }
}

function headerPairs(headers: Record<string, unknown>): [string, string][] {
  const pairs: [string, string][] = [];
  for (const [name, value] of Object.entries(headers)) {
    for (const one of Array.isArray(value) ? value : [value]) pairs.push([name, String(one)]);
  }
  return pairs;
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new DOMException("the request was aborted", "AbortError");
}
