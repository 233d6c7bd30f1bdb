/**
 * Pings a connection regularly to see if its other side still answers.
 *
 * Owns: the pings. Its neighbour `connection.ts` owns the reconnects.
 *
 * 1. `isAlive` never depends on the state of a socket alone: a PING was answered within {@link FRESH_MS}.
 * 2. A connection that leaves a PING unanswered for {@link PATIENCE_MS} is dropped, so that waiting commands go over a new
 *    one. Data that arrived while this process was busy or stopped counts as an answer.
 *
 * On a connection that blocks, an answer waits for the end of the block: it must be much shorter than {@link PATIENCE_MS}.
 */
import type { Clock } from "../../clock.ts";
import { dropRedis, onConnection, type RedisClient, type RedisConnection } from "./connection.ts";

const BEAT_MS = 1_000;
/** Greatest age of the last answer of a live connection. */
const FRESH_MS = 3_000;
const PATIENCE_MS = 5_000;

/** See the module's header. */
export interface Heartbeat {
  /** True if Redis answered over this connection within {@link FRESH_MS}. */
  readonly isAlive: boolean;
  /** Stops the pings. Idempotent. */
  stop(): void;
}

/** Starts to ping at once, each node of a cluster separately; ends with the connection or `stop`. */
export function startHeartbeat(redis: RedisClient, clock: Clock): Heartbeat {
  const beats = new Map<RedisConnection, Heartbeat>();
  onConnection(redis, (connection) => {
    beats.set(connection, startBeat(connection, clock));
    // A cluster's client opens another connection to the node.
    if (connection !== redis) connection.once("end", () => beats.delete(connection));
  });
  return {
    get isAlive() {
      return redis.status === "ready" && beats.size > 0 && [...beats.values()].every((beat) => beat.isAlive);
    },
    stop() {
      for (const beat of beats.values()) beat.stop();
    },
  };
}

function startBeat(redis: RedisConnection, clock: Clock): Heartbeat {
  let answeredAtMs = Number.NEGATIVE_INFINITY;
  let asked: { atMs: number } | undefined;
  let timer: { cancel(): void } | undefined;

  const ask = () => {
    const question = { atMs: clock.monotonicMs() };
    asked = question;
    const over = () => {
      if (asked === question) asked = undefined;
    };
    const answered = () => {
      answeredAtMs = clock.monotonicMs();
      over();
    };
    // A refusal is an answer: a Redis that cannot write its snapshots refuses even this command.
    redis.ping().then(answered, (error: unknown) => (isRefusal(error) ? answered() : over()));
  };
  const isOverdue = () => asked !== undefined && clock.monotonicMs() - asked.atMs >= PATIENCE_MS;
  const giveUp = () => {
    if (isOverdue()) dropRedis(redis);
    timer = clock.timeout(BEAT_MS, beat);
  };
  const beat = () => {
    if (redis.status !== "ready") asked = undefined;
    else if (!asked) ask();
    // The event loop reads data that has already arrived within one more turn.
    timer = isOverdue() ? clock.timeout(0, giveUp) : clock.timeout(BEAT_MS, beat);
  };
  const onReady = () => {
    timer?.cancel();
    asked = undefined;
    beat();
  };
  const stop = () => {
    timer?.cancel();
    redis.off("ready", onReady).off("end", stop);
  };
  redis.on("ready", onReady).on("end", stop);
  beat();
  return {
    get isAlive() {
      return redis.status === "ready" && clock.monotonicMs() - answeredAtMs < FRESH_MS;
    },
    stop,
  };
}

function isRefusal(error: unknown): boolean {
  return error instanceof Error && error.name === "ReplyError";
}
