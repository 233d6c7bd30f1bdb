/**
 * The board: a read-only view of the wake queue in the browser, on this machine.
 *
 * Owns: one HTTP server and one connection to Redis. Its neighbour `app.ts` answers the requests.
 *
 * 1. It only reads. No request can change a queue, and the board itself writes nothing.
 * 2. It starts without Redis and shows the queue as soon as Redis is available. It does not start on a Redis that answers
 *    but refuses its password, or is a Sentinel or one node of a cluster.
 * 3. `stop` resolves when every connection, in and out, is closed.
 *
 * It has no login, so it listens on loopback by default.
 */
import { type Clock, systemClock } from "../../shared/clock.ts";
import { createHttpServer, type HttpServer } from "../../shared/http-server.ts";
import type { Logger } from "../../shared/logger.ts";
import {
  closeRedis,
  openRedis,
  type RedisClient,
  refusalOf,
  refuseWrongServer,
  whenTried,
} from "../../shared/redis/connection/connection.ts";
import { startHeartbeat } from "../../shared/redis/connection/heartbeat.ts";
import { openInstallation } from "../../shared/redis/installation.ts";
import { openWakeQueueForReading } from "../../shared/redis/wake-queue.ts";
import { parseRedisUrl } from "../../shared/redis-url.ts";
import { createOpenable } from "../../shared/start-stop.ts";
import {
  type AllowedHosts,
  allowedHosts,
  BOARD_PATH,
  createBoardApp,
  isLoopback,
  REDIS_AWAY,
} from "./app.ts";
import { createBullBoardRouter } from "./bull-board.ts";

const DEFAULT_HOST = "127.0.0.1";
const REQUEST_TIMEOUT_MS = 15_000;
const MOST_CONNECTIONS = 256;

/** Options of a board. */
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
   * Accepted host names besides loopback ones. Default none; then a board that does not listen on loopback accepts any
   * name.
   */
  hostNames?: readonly string[];
  clock?: Clock;
  logger?: Logger;
}

/** A board. */
export interface Board {
  /** Its URL for a browser, e.g. `http://127.0.0.1:41234/admin/queues`; the port is known after `start`. */
  readonly url: string;
  /**
   * Listens; waits up to 2 s for a first answer of Redis. Idempotent. Rejects with `setup_failed` if the address cannot be used,
   * and with `invalid_config` if Redis refuses the password or database.
   */
  start(): Promise<void>;
  /** Closes everything it opened. Idempotent. */
  stop(): Promise<void>;
}

/** Creates a board, not started. Throws `invalid_config` for a wrong URL or host name. */
export function createBoard(options: BoardOptions): Board {
  const { redisUrl, host = DEFAULT_HOST, logger } = options;
  parseRedisUrl(redisUrl);
  const hosts = allowedHosts(host, options.hostNames);
  let port = options.port ?? 0;
  const open = async () => {
    const { server, close } = await openServer({ ...options, port }, hosts);
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
  const work = createOpenable(open, (close) => close());
  return {
    async start() {
      await work.start();
    },
    stop: work.stop,
    get url() {
      return `http://${host.includes(":") ? `[${host}]` : host}:${port}${BOARD_PATH}`;
    },
  };
}

/** Opens the connection and creates the server that reads from it; the server does not listen yet. */
async function openServer(
  options: BoardOptions & { port: number },
  hosts: AllowedHosts,
): Promise<{ server: HttpServer; close(): Promise<void> }> {
  const { redisUrl, prefix, host = DEFAULT_HOST, port, clock = systemClock, logger } = options;
  const redis = openRedis(redisUrl, "worker", logger);
  const refusal = lastRefusal(redis);
  const openQueue = async () => {
    await whenTried(redis, clock);
    if (redis.status === "ready") await refuseWrongServer(redis);
    return openWakeQueueForReading(redis, openInstallation(redis, { prefix }).keys);
  };
  const queue = await openQueue().catch((error: unknown) => {
    closeRedis(redis);
    throw error;
  });
  const heartbeat = startHeartbeat(redis, clock);
  const app = createBoardApp({
    board: createBullBoardRouter(queue, BOARD_PATH),
    hosts,
    trouble: () => (heartbeat.isAlive ? undefined : (refusal() ?? REDIS_AWAY)),
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

/** Watches a connection; returns a function that returns why Redis refuses it, as a sentence; undefined since it is accepted. */
function lastRefusal(redis: RedisClient): () => string | undefined {
  let sentence: string | undefined;
  redis.on("error", (error: Error) => {
    sentence = refusalOf(error)?.message;
  });
  redis.on("ready", () => {
    sentence = undefined;
  });
  return () => sentence;
}
