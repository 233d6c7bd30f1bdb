/**
 * An HTTP server that slow clients cannot take from the others: what every door of this program listens with.
 *
 * Owns: one listening socket and its connections. What is answered is the caller's.
 *
 * 1. A new connection always finds room: when there are too many, one that waits for its client is closed in its favour, the
 *    one that has waited longest: for the rest of a request, or where none does, for the client to read its answer. Only when
 *    each owes its client an answer is the new one refused.
 * 2. Headers that take longer than 5 s, and requests that take longer than their time, end their connection; so does a client
 *    that takes nothing of its answer for that time (at most twice as long).
 * 3. `stop` resolves when every connection is closed.
 * 4. Requests of one connection are answered one after another: one whose turn never comes was never begun.
 * 5. An answer that fails, by a write behind its end say, ends its connection and nothing else.
 */
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import { messageOf, SubagentError } from "./errors.ts";

const HEADERS_TIMEOUT_MS = 5_000;
const KEEP_ALIVE_MS = 5_000;
const CHECK_EVERY_MS = 1_000;
/** Most requests that wait on one connection for the answers before theirs; the next one ends the connection. */
const MOST_WAITING = 32;

/** What a server is made of. */
export interface HttpServerOptions {
  /** Who listens, for the sentence that says why it cannot: `The board`. */
  who: string;
  host: string;
  /** 0: any free one. */
  port: number;
  /** Most connections at a time. */
  connections: number;
  /** Longest time from a request's first byte to its last, and in which a client takes nothing of its answer. */
  requestTimeoutMs: number;
  answer: RequestListener;
}

/** See the module's header. */
export interface HttpServer {
  /** `http://host:port`; the port is known once it has started. */
  readonly url: string;
  /** Listens. Throws `setup_failed` when the address cannot be used. */
  start(): Promise<void>;
  /** Idempotent. */
  stop(): Promise<void>;
}

/** A server, not started; one that was stopped can be started again, on the same port. */
export function createHttpServer(options: HttpServerOptions): HttpServer {
  const { who, host, connections, requestTimeoutMs, answer } = options;
  let { port } = options;
  const server = createServer(
    {
      headersTimeout: Math.min(HEADERS_TIMEOUT_MS, requestTimeoutMs),
      requestTimeout: requestTimeoutMs,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: CHECK_EVERY_MS,
    },
    oneAfterAnother(answer),
  );
  boundConnections(server, connections, requestTimeoutMs);
  return {
    get url() {
      return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
    },
    async start() {
      if (server.listening) return;
      server.listen({ host, port });
      await once(server, "listening").catch((error: unknown) => {
        const sentence = `${who} cannot listen on ${host}:${port} (${messageOf(error)}): choose another address or port.`;
        throw new SubagentError("setup_failed", sentence, { host, port }, error);
      });
      const address = server.address();
      if (typeof address === "object" && address !== null) port = address.port;
    },
    async stop() {
      if (!server.listening) return;
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/**
 * Calls `sent` once: with true when the whole answer was handed to the network and carried its body, with false when the client
 * has gone, or got a refusal or the head alone.
 */
export function whenSent(response: ServerResponse, sent: (isWhole: boolean) => void): void {
  if (response.closed) {
    sent(false);
    return;
  }
  const { socket, method } = response.req;
  let isHandedOver = false;
  // Node "finishes" an answer whose connection has gone, too; what breaks in its last write is known a moment later.
  response.once("finish", () => {
    isHandedOver = !socket.destroyed;
  });
  response.once("close", () => {
    const hasBody = method !== "HEAD" && response.statusCode >= 200 && response.statusCode < 300;
    sent(isHandedOver && !socket.errored && hasBody);
  });
}

/** Holds a request back until the answer before it has left: Node closes no response whose connection ends before its turn. */
function oneAfterAnother(answer: RequestListener): RequestListener {
  const queues = new WeakMap<Socket, Parameters<RequestListener>[]>();
  return (...exchange) => {
    const { socket } = exchange[0];
    const queue = queues.get(socket);
    if (queue && queue.length >= MOST_WAITING) return void socket.destroy();
    if (queue) return void queue.push(exchange);
    const waiting: Parameters<RequestListener>[] = [];
    queues.set(socket, waiting);
    const begin = (request: IncomingMessage, response: Parameters<RequestListener>[1]) => {
      // Without a listener the error would end the process.
      response.on("error", () => socket.destroy());
      response.once("close", () => {
        const next = waiting.shift();
        if (!next) queues.delete(socket);
        // It has the connection when its turn has come.
        else if (next[1].socket) begin(...next);
      });
      answer(request, response);
    };
    begin(...exchange);
  };
}

/** Bounds a server's connections, and how long one waits for its client to read. */
function boundConnections(server: Server, most: number, patienceMs: number): void {
  // Each with the request that is being answered; the one whose client was heard of last at the end.
  const requests = new Map<Socket, IncomingMessage | undefined>();
  const heardOf = (socket: Socket, request: IncomingMessage | undefined) => {
    if (requests.delete(socket)) requests.set(socket, request);
  };
  server.on("connection", (socket) => {
    if (requests.size >= most) {
      const waiting = waitingLongest(requests) ?? socket;
      waiting.destroy();
      requests.delete(waiting);
      if (waiting === socket) return;
    }
    requests.set(socket, undefined);
    socket.on("drain", () => heardOf(socket, requests.get(socket)));
    socket.once("close", () => requests.delete(socket));
  });
  server.on("request", (request, response) => {
    const { socket } = request;
    heardOf(socket, request);
    response.once("close", () => {
      if (requests.get(socket) === request) heardOf(socket, undefined);
    });
  });
  // A connection is as silent while its answer is being made: that has no bound here.
  server.setTimeout(patienceMs, (socket) => {
    if (socket.writableLength > 0 || requests.get(socket) === undefined) socket.destroy();
  });
}

/** The connection that has waited longest for its client; undefined where each owes its client an answer. */
function waitingLongest(requests: ReadonlyMap<Socket, IncomingMessage | undefined>): Socket | undefined {
  const all = [...requests];
  const [waiting] =
    all.find(([, request]) => request?.complete !== true) ??
    all.find(([socket]) => socket.writableLength > 0) ??
    [];
  return waiting;
}
