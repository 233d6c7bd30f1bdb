/**
 * What the sockets of a connection tell without being asked: since when Redis is silent, and the connection's last problem.
 *
 * 1. A node of a cluster without an unanswered command is idle, not silent: most nodes are, and all replicas.
 */
import type { LoopTime } from "../../clock.ts";
import { connectionProblem, UNANSWERED } from "./cluster.ts";
import { dropRedis, onConnection, type RedisClient, type RedisConnection } from "./connection.ts";
import { READ_ONLY } from "./server-connection.ts";

/** See the module's header. Times are those of {@link watchSockets}, ms. */
export interface Sockets {
  /**
   * Returns since when Redis has sent nothing though it owes an answer, on a cluster the node silent for longest of those that were
   * asked at `askedSinceMs` (default: ever) or later: no other one owes an answer to a call that began then. `Infinity` if no such
   * node owes one.
   */
  silentSinceMs(askedSinceMs?: number): number;
  /** Returns when Redis last sent bytes, on a cluster the node that was heard last. */
  answeredAtMs(): number;
  /** The last problem, for messages; empty while the connection is ready, and while the server has refused nothing. */
  problem: string;
  /** Drops the sockets that owe an answer and were silent for `silentMs` (default: all sockets); opens new ones at once. */
  drop(silentMs?: number): void;
}

/** Watches the sockets of a connection from now on. */
export function watchSockets(redis: RedisClient, time: Pick<Readonly<LoopTime>, "nowMs">): Sockets {
  /** When a socket last received bytes or, if that is later, when a node that owed nothing was asked. */
  const silentSince = new Map<RedisConnection, number>();
  /** When a node of a cluster was last asked. */
  const askedAt = new WeakMap<RedisConnection, number>();
  /**
   * The one server of a connection is asked for its silence only while a command waits for it. A node that is not ready owes its
   * greeting, and commands may wait for it.
   */
  const owes = (connection: RedisConnection) =>
    connection === redis || connection.commandQueue.length > 0 || connection.status !== "ready";
  let answeredAtMs = Number.NEGATIVE_INFINITY;
  const sockets: Sockets = {
    problem: "",
    silentSinceMs(askedSinceMs = Number.NEGATIVE_INFINITY) {
      const isMeant = (each: RedisConnection) =>
        owes(each) && (each === redis || (askedAt.get(each) ?? Number.NEGATIVE_INFINITY) >= askedSinceMs);
      return Math.min(...[...silentSince].map(([each, ms]) => (isMeant(each) ? ms : Infinity)));
    },
    answeredAtMs: () => answeredAtMs,
    drop(silentMs?: number) {
      for (const [connection, sinceMs] of silentSince)
        if (silentMs === undefined || (owes(connection) && time.nowMs - sinceMs >= silentMs))
          dropRedis(connection);
    },
  };
  onConnection(redis, (connection) => {
    silentSince.set(connection, Number.NEGATIVE_INFINITY);
    connection.on("connect", () => {
      connection.stream.on("data", () => {
        answeredAtMs = time.nowMs;
        silentSince.set(connection, answeredAtMs);
      });
    });
    if (connection === redis) return;
    // A cluster's client opens a new connection to the node.
    connection.on("close", () => silentSince.delete(connection));
    const { sendCommand } = connection;
    connection.sendCommand = (...command) => {
      if (!owes(connection)) silentSince.set(connection, time.nowMs);
      askedAt.set(connection, time.nowMs);
      return sendCommand.apply(connection, command);
    };
  });
  noteProblems(redis, sockets);
  return sockets;
}

/** Keeps the last problem of `redis` in `sockets`. */
function noteProblems(redis: RedisClient, sockets: Pick<Sockets, "problem">): void {
  redis.on(READ_ONLY, (error: Error) => {
    sockets.problem = error.message;
  });
  redis.on("error", (error: Error) => {
    const problem = connectionProblem(error);
    // For an unanswered connection the call's error states the time it waited.
    sockets.problem = problem === UNANSWERED ? "" : problem;
  });
  redis.on("ready", () => {
    sockets.problem = "";
  });
}
