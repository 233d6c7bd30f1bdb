/**
 * A connection of a client as its calls need it: how long to wait for it, when it was heard of last, and how to give up
 * a socket that no longer answers. Waiting on it is measured by {@link LoopTime}.
 *
 * Owns: the connection, its time, and who waits for it to be ready. Its neighbour `redis-call.ts` decides what a missing answer
 * means.
 *
 * 1. `whenReady` tells the truth at the moment it resolves and never outlives its time.
 * 2. Time is counted only while something waits; one timer serves everything that does.
 * 3. Each step is followed by one more turn of the event loop: what arrived during a stall is read before time is up.
 */
import type { Clock } from "../shared/clock.ts";
import type { Logger } from "../shared/logger.ts";
import { problemOf } from "../shared/redis/connection/cluster.ts";
import {
  canSend,
  closeRedis,
  dropRedis,
  onConnection,
  openRedis,
  type RedisClient,
  type RedisConnection,
  type RedisRole,
} from "../shared/redis/connection/connection.ts";

/** See the module's header. */
export interface Connection {
  readonly redis: RedisClient;
  /** The time by which waiting on this connection is measured. */
  readonly time: Pick<Readonly<LoopTime>, "nowMs" | "after">;
  /** True as soon as commands can be sent; false when that did not happen within `withinMs`. */
  whenReady(withinMs: number): Promise<boolean>;
  /** Calls `listener` each time the connection has become ready. */
  onReady(listener: () => void): void;
  /** When bytes came from Redis last, in a cluster from its most silent node; ms of {@link Connection.time}. */
  readonly heardAtMs: number;
  /** What went wrong last, for people; empty once the connection is ready, and while nothing refused it. */
  readonly problem: string;
  /** Gives up the sockets that were silent for `silentMs` (default 0: all); new ones are opened at once. */
  drop(silentMs?: number): void;
  /** Whether {@link Connection.close} was called. */
  readonly closed: boolean;
  /** Closes the connection for good. Idempotent. */
  close(): void;
}

/** Opens a connection for `role`. Throws `invalid_config` on a wrong URL. */
export function openConnection(url: string, role: RedisRole, clock: Clock, logger: Logger): Connection {
  const redis = openRedis(url, role, logger, clock);
  const time = new LoopTime(clock);
  const sockets = watchSockets(redis, time);
  const waiting = new Set<(ready: boolean) => void>();
  const listeners: (() => void)[] = [];
  let closed = false;

  const answerAll = (ready: boolean) => {
    for (const answer of [...waiting]) answer(ready);
  };
  redis.on("ready", () => {
    for (const listener of listeners) listener();
    answerAll(true);
  });
  return {
    redis,
    time,
    whenReady(withinMs) {
      if (closed) return Promise.resolve(false);
      if (canSend(redis)) return Promise.resolve(true);
      return new Promise((resolve) => {
        const answer = (ready: boolean) => {
          waiting.delete(answer);
          timer.cancel();
          resolve(ready);
        };
        const timer = time.after(withinMs, () => answer(false));
        waiting.add(answer);
      });
    },
    onReady: (listener) => void listeners.push(listener),
    drop: sockets.drop,
    get heardAtMs() {
      return sockets.heardAtMs;
    },
    get problem() {
      return sockets.problem;
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
function watchSockets(redis: RedisClient, time: Connection["time"]) {
  const heardAt = new Map<RedisConnection, number>();
  const sockets = {
    problem: "",
    get heardAtMs() {
      return Math.min(...heardAt.values());
    },
    drop(silentMs = 0) {
      for (const [connection, atMs] of heardAt) if (time.nowMs - atMs >= silentMs) dropRedis(connection);
    },
  };
  onConnection(redis, (connection) => {
    heardAt.set(connection, Number.NEGATIVE_INFINITY);
    connection.on("connect", () => {
      connection.stream.on("data", () => heardAt.set(connection, time.nowMs));
    });
    // A cluster's client opens another connection to the node.
    if (connection !== redis) connection.on("close", () => heardAt.delete(connection));
  });
  redis.on("error", (error: Error) => {
    sockets.problem = problemOf(error);
  });
  redis.on("ready", () => {
    sockets.problem = "";
  });
  return sockets;
}

/** Longest time of a call, counted: a second, less what a busy process needs to notice. */
export const CALL_BUDGET_MS = 800;

/** Time between two steps. */
const STEP_MS = 20;
/** Most that one step counts, however late it comes. */
const MOST_COUNTED_MS = 100;

interface Appointment {
  readonly atMs: number;
  readonly due: () => void;
}

/**
 * Time as this process could use it, at 0: a stall of the event loop counts as {@link MOST_COUNTED_MS} at most, since nothing
 * could arrive meanwhile. So a busy machine is not taken for a dead Redis.
 */
export class LoopTime {
  /** Counted ms; stands still while nothing waits. Only this class writes it. */
  nowMs = 0;
  readonly #clock: Clock;
  readonly #appointments = new Set<Appointment>();
  #timer: { cancel(): void } | undefined;
  #steppedAtMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `due` once after `ms` counted ms, unless cancelled. */
  after(ms: number, due: () => void): { cancel(): void } {
    if (!this.#timer) {
      this.#steppedAtMs = this.#clock.monotonicMs();
      this.#wait();
    }
    const appointment = { atMs: this.nowMs + Math.max(0, ms), due };
    this.#appointments.add(appointment);
    return { cancel: () => this.#cancel(appointment) };
  }

  #cancel(appointment: Appointment): void {
    this.#appointments.delete(appointment);
    if (this.#appointments.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #wait(): void {
    const step = () => this.#step();
    this.#timer = this.#clock.timeout(STEP_MS, () => {
      this.#timer = this.#clock.timeout(0, step);
    });
  }

  #step(): void {
    const atMs = this.#clock.monotonicMs();
    this.nowMs += Math.min(atMs - this.#steppedAtMs, MOST_COUNTED_MS);
    this.#steppedAtMs = atMs;
    for (const appointment of [...this.#appointments]) {
      if (appointment.atMs <= this.nowMs && this.#appointments.delete(appointment)) appointment.due();
    }
    if (this.#appointments.size > 0) this.#wait();
    else this.#timer = undefined;
  }
}
