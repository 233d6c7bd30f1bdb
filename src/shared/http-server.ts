/**
 * An HTTP server that slow clients cannot block for others. Every listening port of this program uses it.
 *
 * Owns: one listening socket and its connections. The caller makes the answers.
 *
 * 1. A new connection is accepted even at the limit: the server then closes the connection that has waited longest for its
 *    client. It waits for the rest of a request or, if no connection does, for the client to read its answer. The server
 *    refuses the new connection only if it owes every client an answer.
 * 2. Headers that take longer than 5 s, and requests that take longer than their time, end their connection. So does a
 *    client that reads nothing of its answer for that time (at most twice as long).
 * 3. `stop` begins no further request, and resolves when every connection is closed: one at rest at once, any other when its
 *    answer has left, or after the time of grace. An answer that waits for something hears of the stop ({@link stopOf}).
 * 4. Requests of one connection are answered one after another, and other connections have their turn in between. A request
 *    whose turn never comes was never begun. At most {@link MOST_WAITING_IN_ALL} wait: one more ends the connection with most.
 * 5. An answer that fails, for example by a write after its end, ends its connection and nothing else.
 * 6. What is no request ends its connection. A client that waits for an answer gets no refusal in its place: its request has
 *    begun.
 */
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from "node:http";
import type { Socket } from "node:net";
import { systemClock } from "./clock.ts";
import { messageOf, SubagentError } from "./errors.ts";
import { holdTurns } from "./event-loop.ts";
import { createOpenable } from "./start-stop.ts";
import { StopSignal } from "./stop-signal.ts";

const HEADERS_TIMEOUT_MS = 5_000;
const KEEP_ALIVE_MS = 5_000;
const CHECK_EVERY_MS = 1_000;
/** Maximum number of requests that wait on one connection for earlier answers; the next one ends the connection. */
const MOST_WAITING = 32;
/** Maximum number of requests that wait so on all connections: some 100 MB with the longest headers. */
const MOST_WAITING_IN_ALL = 4_096;
/** Default time for answers in progress at a stop. Docker kills 10 s after it has told a container to stop. */
const STOP_GRACE_MS = 5_000;

/** The stop of each connection's server. */
const stops = new WeakMap<Socket, StopSignal>();

/** Returns the stop of the server that a request came to. */
export function stopOf({ socket }: Pick<IncomingMessage, "socket">): StopSignal {
  return stops.get(socket) ?? NO_STOP;
}

const NO_STOP = new StopSignal();

/** Signals of one answer. */
export interface AnswerSignals {
  /** Aborts when the client has left or the answer has been sent. */
  readonly signal: AbortSignal;
  /** Aborts when the answer must wait no longer: as `signal` does, and when the server stops. */
  readonly waiting: AbortSignal;
}

/** Returns the signals of the answer to `request`. */
export function answerSignals(request: IncomingMessage, response: ServerResponse): AnswerSignals {
  const [gone, over] = [new AbortController(), new AbortController()];
  const forget = stopOf(request).onStop(() => over.abort());
  response.once("close", () => {
    forget();
    gone.abort();
    over.abort();
  });
  return { signal: gone.signal, waiting: over.signal };
}

/** Options of a server. */
export interface HttpServerOptions {
  /** Name of the listener in the error sentence: `The board`. */
  who: string;
  host: string;
  /** 0: any free port. */
  port: number;
  /** Maximum number of open connections. */
  connections: number;
  /** Time limit from a request's first byte to its last, and for a client that reads nothing of its answer. */
  requestTimeoutMs: number;
  /** Time for answers in progress at a stop; default 5 s. */
  stopGraceMs?: number;
  answer: RequestListener;
}

/** See the module's header. */
export interface HttpServer {
  /** `http://host:port`; the port is known after the start. */
  readonly url: string;
  /** Listens; during a stop after that. Rejects with `setup_failed` if the address cannot be used. Idempotent. */
  start(): Promise<void>;
  /** Waits for a start under way, then takes the time of grace at most. Idempotent. */
  stop(): Promise<void>;
}

/** Creates a server without starting it. A stopped server can be started again, on the same port. */
export function createHttpServer(options: HttpServerOptions): HttpServer {
  const { who, host, connections, requestTimeoutMs, stopGraceMs = STOP_GRACE_MS, answer } = options;
  let { port } = options;
  let stop = new StopSignal();
  const server = createServer(
    {
      headersTimeout: Math.min(HEADERS_TIMEOUT_MS, requestTimeoutMs),
      requestTimeout: requestTimeoutMs,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: CHECK_EVERY_MS,
    },
    oneAfterAnother(answer),
  );
  // A connection that the system cannot give, for want of memory or a descriptor, is no reason to end the process.
  server.on("error", () => {});
  server.on("connection", (socket) => {
    holdTurns();
    stops.set(socket, stop);
  });
  boundConnections(server, connections, requestTimeoutMs);
  const listen = async () => {
    // Node would listen on every address of the machine.
    if (host === "")
      throw new SubagentError(
        "setup_failed",
        `${who} has no address to listen on: name one, e.g. 127.0.0.1.`,
      );
    stop = new StopSignal();
    server.listen({ host, port });
    await once(server, "listening").catch((error: unknown) => {
      const sentence = `${who} cannot listen on ${host}:${port} (${messageOf(error)}): choose another address or port.`;
      throw new SubagentError("setup_failed", sentence, { host, port }, error);
    });
    const address = server.address();
    if (typeof address === "object" && address !== null) port = address.port;
  };
  return {
    ...createOpenable(listen, () => stopServer(server, stop, stopGraceMs)),
    get url() {
      return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
    },
  };
}

async function stopServer(server: Server, stop: StopSignal, graceMs: number): Promise<void> {
  const closed = once(server, "close");
  server.close();
  stop.stop();
  const over = systemClock.timeout(graceMs, () => server.closeAllConnections());
  await closed;
  over.cancel();
}

/**
 * Resolves when this process has heard of each client that had left by now. An answer that must not be lost waits for it just
 * before it is written: the network takes it also for a client that left while this process stood still.
 */
export async function leftClientsKnown(): Promise<void> {
  await new Promise(setImmediate);
  // The round of the event loop that is going on may have asked for events before the client left; the next one asks again.
  await new Promise(setImmediate);
}

/**
 * Calls `sent` once. True: the whole answer, with its body, was handed to the network. False: the client has gone, or got a
 * refusal or the head alone. What this process has not heard of yet does not count; see {@link leftClientsKnown}.
 */
export function whenSent(response: ServerResponse, sent: (isWhole: boolean) => void): void {
  if (response.closed) {
    sent(false);
    return;
  }
  const { socket, method } = response.req;
  let isHandedOver = false;
  // Node also "finishes" an answer whose connection has gone; an error of its last write comes a moment later.
  response.once("finish", () => {
    isHandedOver = !socket.destroyed;
  });
  response.once("close", () => {
    const hasBody = method !== "HEAD" && response.statusCode >= 200 && response.statusCode < 300;
    sent(isHandedOver && !socket.errored && hasBody);
  });
}

type Exchange = Parameters<RequestListener>;

/** The requests of each connection that wait for the answers before theirs. */
class WaitingRequests {
  readonly #queues = new Map<Socket, Exchange[]>();
  #count = 0;

  /** Begins a queue; the connection's first request is being answered. */
  begin(socket: Socket): void {
    this.#queues.set(socket, []);
  }

  /** Takes a request whose connection has a queue; false: it has none. */
  push(exchange: Exchange): boolean {
    const { socket } = exchange[0];
    const queue = this.#queues.get(socket);
    if (!queue) return false;
    if (queue.length >= MOST_WAITING) {
      this.end(socket);
      return true;
    }
    queue.push(exchange);
    this.#count += 1;
    if (this.#count > MOST_WAITING_IN_ALL) this.end(this.#longest() ?? socket);
    return true;
  }

  /** Takes the next request out of a connection's queue; undefined if none waits: the queue has ended. */
  next(socket: Socket): Exchange | undefined {
    const next = this.#queues.get(socket)?.shift();
    if (next) this.#count -= 1;
    else this.#queues.delete(socket);
    return next;
  }

  has(socket: Socket): boolean {
    return (this.#queues.get(socket)?.length ?? 0) > 0;
  }

  /** Drops a connection's queue; none of its requests is carried out. */
  drop(socket: Socket): void {
    this.#count -= this.#queues.get(socket)?.length ?? 0;
    this.#queues.delete(socket);
  }

  /** Ends a connection and its queue. */
  end(socket: Socket): void {
    this.drop(socket);
    socket.destroy();
  }

  #longest(): Socket | undefined {
    let [found, most] = [undefined as Socket | undefined, 0];
    for (const [socket, { length }] of this.#queues) if (length > most) [found, most] = [socket, length];
    return found;
  }
}

/**
 * Queues a request until the answer before it has left, because Node closes no response whose connection ends before its turn.
 * Only one queued request begins in each round of the event loop, so a client that sends many at once delays no other.
 */
function oneAfterAnother(answer: RequestListener): RequestListener {
  const waiting = new WaitingRequests();
  const inTurn = oneEachRound();
  const begin = (...[request, response]: Exchange) => {
    const { socket } = request;
    // Without a listener the error would end the process.
    response.on("error", () => socket.destroy());
    // Only of a request that begins: a response whose turn never comes does not close, and would never be forgotten.
    const forget = stopOf(request).onStop(() => {
      response.shouldKeepAlive = false;
    });
    response.once("close", () => {
      forget();
      if (waiting.has(socket)) inTurn(() => beginNext(socket));
      else waiting.drop(socket);
    });
    answer(request, response);
  };
  const beginNext = (socket: Socket) => {
    if (socket.destroyed) return waiting.end(socket);
    const next = waiting.next(socket);
    if (!next) return;
    if (!stopOf(next[0]).isStopped) return begin(...next);
    waiting.drop(socket);
    socket.destroySoon();
  };
  return (...exchange) => {
    const { socket } = exchange[0];
    // The parser goes on with what it has read of a connection that has ended.
    if (socket.destroyed || waiting.push(exchange)) return;
    waiting.begin(socket);
    begin(...exchange);
  };
}

/** Returns a function that has the calls it is given made one each round of the event loop, in their order. */
function oneEachRound(): (call: () => void) => void {
  const calls: (() => void)[] = [];
  const round = () => {
    const call = calls.shift();
    if (calls.length > 0) setImmediate(round);
    call?.();
  };
  return (call) => {
    if (calls.push(call) === 1) setImmediate(round);
  };
}

/** Status of the refusal of bytes that are no request, by Node's error code; all others: 400. */
const UNREADABLE: ReadonlyMap<string, number> = new Map([
  ["ERR_HTTP_REQUEST_TIMEOUT", 408],
  ["HPE_CHUNK_EXTENSIONS_OVERFLOW", 413],
  ["HPE_HEADER_OVERFLOW", 431],
]);

/** Limits a server's connections, and the time that one may be silent. */
function boundConnections(server: Server, most: number, silenceMs: number): void {
  // Each connection with the answer being made. The connection whose client was active last is at the end.
  const answers = new Map<Socket, ServerResponse | undefined>();
  const heardOf = (socket: Socket, answer: ServerResponse | undefined) => {
    if (answers.delete(socket)) answers.set(socket, answer);
  };
  server.on("connection", (socket) => {
    if (answers.size >= most) {
      const waiting = waitingLongest(answers) ?? socket;
      waiting.destroy();
      answers.delete(waiting);
      if (waiting === socket) return;
    }
    answers.set(socket, undefined);
    socket.on("drain", () => heardOf(socket, answers.get(socket)));
    const forget = stopOf({ socket }).onStop(() => {
      if (answers.get(socket) === undefined) socket.destroy();
    });
    socket.once("close", () => {
      forget();
      answers.delete(socket);
    });
  });
  server.on("request", (request, response) => {
    const { socket } = request;
    heardOf(socket, response);
    response.once("close", () => {
      if (stopOf(request).isStopped) socket.destroySoon();
      if (answers.get(socket) === response) heardOf(socket, undefined);
    });
  });
  server.on("clientError", ({ code }: NodeJS.ErrnoException, socket) => {
    const answer = answers.get(socket as Socket);
    const isAwaited = answer?.req.complete === true || answer?.headersSent === true;
    if (isAwaited || !socket.writable) return void socket.destroy();
    const status = UNREADABLE.get(code ?? "") ?? 400;
    const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\n\r\n`;
    socket.end(head, () => socket.destroy());
  });
  // A connection is also silent while its answer is being made: that time has no limit here.
  server.setTimeout(silenceMs, (socket) => {
    if (socket.writableLength > 0 || answers.get(socket) === undefined) socket.destroy();
  });
}

/** Returns the connection that has waited longest for its client; undefined if each owes its client an answer. */
function waitingLongest(answers: ReadonlyMap<Socket, ServerResponse | undefined>): Socket | undefined {
  const all = [...answers];
  const [waiting] =
    all.find(([, answer]) => answer?.req.complete !== true) ??
    all.find(([socket]) => socket.writableLength > 0) ??
    [];
  return waiting;
}
