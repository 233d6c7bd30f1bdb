/**
 * The one command connection of a client.
 *
 * Owns: the connection, who waits for it to be ready, and the end of sockets that stopped answering.
 * Its neighbour `call.ts` decides what a missing answer means.
 *
 * 1. `whenReady` tells the truth at the moment it resolves and never outlives its time.
 */
import type { Clock } from "../shared/clock.ts";
import type { Logger } from "../shared/logger.ts";
import { problemOf } from "../shared/redis/cluster.ts";
import {
  canSend,
  closeRedis,
  dropRedis,
  onConnection,
  openRedis,
  type RedisClient,
  type RedisConnection,
  type RedisRole,
} from "../shared/redis/connection.ts";

/** See the module's header. */
export interface Link {
  readonly redis: RedisClient;
  /** True as soon as commands can be sent; false when that did not happen within `withinMs`. */
  whenReady(withinMs: number): Promise<boolean>;
  /** Calls `listener` each time the connection has become ready. */
  onReady(listener: () => void): void;
  /** When bytes came from Redis last, in a cluster from its most silent node; ms of the clock's monotonic time. */
  readonly heardAtMs: number;
  /** What went wrong last, for people; empty once the connection is ready. */
  readonly problem: string;
  /** Gives up the socket, which answers no more; a new one is opened at once. Of a cluster's, those silent for `silentMs`. */
  drop(silentMs?: number): void;
  /** Whether {@link close} was called. */
  readonly closed: boolean;
  /** Closes the connection for good. Idempotent. */
  close(): void;
}

/** Opens a connection for `role`. Throws `invalid_config` on a wrong URL. */
export function openLink(url: string, role: RedisRole, clock: Clock, logger: Logger): Link {
  const redis = openRedis(url, role, logger, clock);
  const heard = watchSockets(redis, clock);
  const waiting = new Set<(ready: boolean) => void>();
  const listeners: (() => void)[] = [];
  let closed = false;

  const answerAll = (ready: boolean) => {
    for (const answer of [...waiting]) answer(ready);
  };
  redis.on("ready", () => {
    answerAll(true);
    for (const listener of listeners) listener();
  });
  return {
    redis,
    whenReady(withinMs) {
      if (closed) return Promise.resolve(false);
      if (canSend(redis)) return Promise.resolve(true);
      return new Promise((resolve) => {
        const answer = (ready: boolean) => {
          waiting.delete(answer);
          timer.cancel();
          resolve(ready);
        };
        const timer = clock.timeout(Math.max(0, withinMs), () => answer(false));
        waiting.add(answer);
      });
    },
    onReady: (listener) => void listeners.push(listener),
    drop: heard.drop,
    get heardAtMs() {
      return heard.atMs;
    },
    get problem() {
      return heard.problem;
    },
    get closed() {
      return closed;
    },
    close() {
      if (closed) return;
      closed = true;
      answerAll(false);
      closeRedis(redis);
    },
  };
}

/** Follows what comes over a connection's sockets. */
function watchSockets(redis: RedisClient, clock: Clock) {
  const heardAt = new Map<RedisConnection, number>();
  const heard = {
    problem: "",
    get atMs() {
      return Math.min(...heardAt.values());
    },
    drop(silentMs = 0) {
      const nowMs = clock.monotonicMs();
      for (const [connection, atMs] of heardAt) if (nowMs - atMs >= silentMs) dropRedis(connection);
    },
  };
  onConnection(redis, (connection) => {
    heardAt.set(connection, Number.NEGATIVE_INFINITY);
    connection.on("connect", () => {
      connection.stream.on("data", () => heardAt.set(connection, clock.monotonicMs()));
    });
    // A cluster's client opens another connection to the node.
    if (connection !== redis) connection.on("close", () => heardAt.delete(connection));
  });
  redis.on("error", (error: Error) => {
    heard.problem = problemOf(error);
  });
  redis.on("ready", () => {
    heard.problem = "";
  });
  return heard;
}
