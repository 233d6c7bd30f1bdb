/**
 * The board: a read-only look at the wake queue for people, in the browser, on this machine.
 *
 * Owns: one HTTP server and one connection to Redis. Its neighbour `app.ts` decides what is answered.
 *
 * 1. It reads. Nothing that can be sent to it changes a queue, and it writes nothing by itself.
 * 2. It starts without Redis and shows the queue as soon as there is one.
 * 3. `stop` resolves when every connection, in and out, is closed.
 *
 * It has no login, so it listens on loopback unless told otherwise.
 */
import { type Clock, systemClock } from "../../shared/clock.ts";
import { createHttpServer, type HttpServer } from "../../shared/http-server.ts";
import type { Logger } from "../../shared/logger.ts";
import { closeRedis, openRedis } from "../../shared/redis/connection/connection.ts";
import { startHeartbeat } from "../../shared/redis/connection/heartbeat.ts";
import { openInstallation } from "../../shared/redis/installation.ts";
import { openWakeQueueForReading } from "../../shared/redis/wake-queue.ts";
import { parseRedisUrl } from "../../shared/redis-url.ts";
import { allowedHosts, BOARD_PATH, createBoardApp, isLoopback } from "./app.ts";
import { createBullBoardRouter } from "./bull-board.ts";

const DEFAULT_HOST = "127.0.0.1";
const REQUEST_TIMEOUT_MS = 15_000;
const MOST_CONNECTIONS = 256;

/** What a board is made of. */
export interface BoardOptions {
  /** `redis://…`, `rediss://…`, `unix:///…`, or `redis+cluster://…` with some nodes of a cluster. */
  redisUrl: string;
  /** Prefix of all keys, default `saq`. */
  prefix?: string;
  /** Address to listen on, default `127.0.0.1`. Every client that reaches it can read the board. */
  host?: string;
  /** Default 0: any free port. */
  port?: number;
  /**
   * Host names, besides loopback ones, under which the board may be asked. Default none; then a board that does not
   * listen on loopback answers to any name.
   */
  hostNames?: readonly string[];
  clock?: Clock;
  logger?: Logger;
}

/** A board. */
export interface Board {
  /** Where people open it, e.g. `http://127.0.0.1:41234/admin/queues`; the port is known once it has started. */
  readonly url: string;
  /** Listens; does not wait for Redis. Idempotent. Throws `setup_failed` when the address cannot be used. */
  start(): Promise<void>;
  /** Closes everything it opened. Idempotent. */
  stop(): Promise<void>;
}

/** A board, not started. Throws `invalid_config` for a wrong URL. */
export function createBoard(options: BoardOptions): Board {
  const { redisUrl, host = DEFAULT_HOST, logger } = options;
  parseRedisUrl(redisUrl);
  let port = options.port ?? 0;
  let running: Promise<() => Promise<void>> | undefined;
  let stopping: Promise<void> = Promise.resolve();

  const open = async () => {
    await stopping;
    const { server, close } = await openServer(options, port);
    try {
      await server.start();
    } catch (error) {
      await close();
      throw error;
    }
    port = Number(new URL(server.url).port);
    if (!isLoopback(host)) logger?.warn({ host, port }, "The board has no login and is open to the network");
    return close;
  };
  return {
    get url() {
      return `http://${host.includes(":") ? `[${host}]` : host}:${port}${BOARD_PATH}`;
    },
    async start() {
      running ??= open().catch((error: unknown) => {
        running = undefined;
        throw error;
      });
      await running;
    },
    stop() {
      const opened = running;
      running = undefined;
      if (opened) {
        stopping = opened.then(
          (close) => close(),
          () => {},
        );
      }
      return stopping;
    },
  };
}

/** The connection, and the server that reads it; it does not listen yet. */
async function openServer(
  options: BoardOptions,
  port: number,
): Promise<{ server: HttpServer; close(): Promise<void> }> {
  const { redisUrl, prefix, host = DEFAULT_HOST, hostNames, clock = systemClock, logger } = options;
  const redis = openRedis(redisUrl, "worker", logger);
  const heartbeat = startHeartbeat(redis, clock);
  const queue = await openWakeQueueForReading(redis, openInstallation(redis, { prefix }).keys);
  const app = createBoardApp({
    board: createBullBoardRouter(queue, BOARD_PATH),
    hosts: allowedHosts(host, hostNames),
    isReady: () => heartbeat.isAlive,
    clock,
    logger,
  });
  const server = createHttpServer({
    who: "The board",
    host,
    port,
    connections: MOST_CONNECTIONS,
    requestTimeoutMs: REQUEST_TIMEOUT_MS,
    answer: app,
  });
  return {
    server,
    async close() {
      await server.stop();
      heartbeat.stop();
      closeRedis(redis);
      await queue.close();
    },
  };
}
