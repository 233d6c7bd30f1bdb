/**
 * The listening socket.
 *
 * Owns: the HTTP server, its port and the exchanges under way. Its neighbour `routes` answers each exchange.
 *
 * Invariants:
 * 1. `start` and `stop` are idempotent; after a stop it may be started again, on the same port.
 * 2. `stop` resolves when every connection is closed and every exchange under way has ended.
 */
import { createServer, type Server } from "node:http";
import { OfflineModelError } from "./api-error.ts";
import { type Exchange, openExchange, sendError } from "./exchange.ts";

/** Where to listen and what to do. */
export interface ListenerOptions {
  host: string;
  /** 0 takes a free one. */
  port: number;
  /** Runs before each listening; a rejection keeps the socket closed. */
  prepare(): Promise<void>;
  /** Answers one exchange. */
  serve(exchange: Exchange): Promise<void>;
}

/** See the module header. */
export interface Listener {
  start(): Promise<void>;
  stop(): Promise<void>;
  /** The port, 0 before the first `start` when a free one is to be taken. */
  readonly port: number;
  /** Exchanges under way. */
  readonly inFlight: number;
}

/** Creates a listener that is closed. */
export function createListener({ host, port: wanted, prepare, serve }: ListenerOptions): Listener {
  const underWay = new Set<Promise<void>>();
  const server = createExchangeServer(serve, underWay);
  let port = wanted;
  let running: Promise<void> | undefined;
  let stopping: Promise<void> = Promise.resolve();

  const open = async (): Promise<void> => {
    await stopping;
    await prepare();
    port = await listen(server, host, port);
  };
  const close = async (opened: Promise<void>): Promise<void> => {
    const listens = await opened.then(
      () => true,
      () => false,
    );
    if (listens) await closeNow(server);
    await Promise.all(underWay);
  };

  return {
    start() {
      running ??= open().catch((error: unknown) => {
        running = undefined;
        throw error;
      });
      return running;
    },
    stop() {
      if (running !== undefined) stopping = close(running);
      running = undefined;
      return stopping;
    },
    get port() {
      return port;
    },
    get inFlight() {
      return underWay.size;
    },
  };
}

function createExchangeServer(serve: ListenerOptions["serve"], underWay: Set<Promise<void>>): Server {
  let requests = 0;
  const server = createServer((request, response) => {
    requests += 1;
    const exchange = openExchange(request, response, `req_offline${String(requests).padStart(8, "0")}`);
    const begun = Promise.resolve().then(() => serve(exchange));
    const serving = begun.catch((error: unknown) => {
      if (response.headersSent) throw error;
      sendError(exchange, {
        status: 500,
        type: "api_error",
        message: `The offline model failed: ${String(error)}`,
      });
    });
    underWay.add(serving);
    serving.finally(() => underWay.delete(serving));
  });
  server.keepAliveTimeout = 0;
  server.requestTimeout = 0;
  return server;
}

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const fail = (cause: Error): void => {
      const sentence = `The offline model cannot listen on ${host}:${port}: ${cause.message}`;
      reject(new OfflineModelError("cannot_listen", sentence, { cause }));
    };
    server.once("error", fail);
    server.listen(port, host, () => {
      server.off("error", fail);
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : port);
    });
  });
}

function closeNow(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
