/**
 * One call of a producer: its commands, the time they share, and what a missing answer means; and the connection it goes over:
 * how long to wait for it, when it was heard of last, and how to give up a socket that no longer answers.
 *
 * Owns: the connection, its time ({@link LoopTime}), which calls are under way on it, and who waits for a place.
 *
 * 1. A call answers or rejects within {@link CALL_BUDGET_MS} from the moment at which it gets one of {@link MAX_CALLS}
 *    places, however many commands it sends. Calls wait for a place only while Redis answers others.
 * 2. `redis_unavailable`: nothing was done, by no command of the call. `outcome_unknown`: something may have been done, and
 *    the error names what makes the same call safe.
 * 3. A command whose answer was lost is sent once more, word for word: every verb of ours may be repeated.
 * 4. A socket that is silent while a command waits is given up, so that the next one goes over a new one. One that
 *    answers others is not: then the answer is only late, because this process or Redis is busy.
 * 5. `whenReady` tells the truth at the moment it resolves and never outlives its time.
 */

import { type Clock, LoopTime } from "../shared/clock.ts";
import { messageOf, SubagentError } from "../shared/errors.ts";
import type { Logger } from "../shared/logger.ts";
import { clip } from "../shared/protocol/text.ts";
import { problemOf, UNANSWERED, UNSENT } from "../shared/redis/connection/cluster.ts";
import {
  canSend,
  closeRedis,
  clusterNodeRefused,
  dropRedis,
  onConnection,
  openRedis,
  type RedisClient,
  type RedisConnection,
  type RedisRole,
} from "../shared/redis/connection/connection.ts";
import { isOutOfMemory, MAKE_ROOM } from "../shared/redis/connection/server-check.ts";

/** Longest time of a call as it is counted: a second, less the time in which a busy process notices that it is over. */
export const CALL_BUDGET_MS = 800;
/** Most calls under way on one connection; the others wait for a place, in their order. */
const MAX_CALLS = 256;

/** Names what makes the repetition of a call safe, e.g. `{ what: "the spawn", key: { request_key: "…" } }`. */
export interface SafeRepeat {
  what: string;
  key: Readonly<Record<string, string>>;
}

/** The commands of one call; they share its time. */
export interface RedisCall {
  /** Reads, and writes that a sweeper or the next call makes good if they are lost. Rejects with `redis_unavailable` or `closed`. */
  read<T>(send: () => Promise<T>): Promise<T>;
  /** A change that may be repeated; `repeated` says that an earlier try may have happened. Also `outcome_unknown`. */
  write<T>(repeat: SafeRepeat, send: (repeated: boolean) => Promise<T>): Promise<T>;
  /** Waits for work that a sweeper repeats, as long as there is time. The work does not reject. */
  attempt(work: () => Promise<void>): Promise<void>;
}

/** Runs calls on one connection. */
export interface RedisCalls {
  /** Runs `work` as one call, as soon as there is a place. Rejects as the call's commands do. */
  run<T>(work: (call: RedisCall) => Promise<T>): Promise<T>;
}

/** A caller's place in the line: `begin` with the call's time, or `refuse`. */
interface Waiting {
  readonly sinceMs: number;
  begin(budgetMs: number): void;
  refuse(): void;
}

/** Calls on `connection`. */
export function createRedisCalls(connection: Connection): RedisCalls {
  const { time } = connection;
  const line: Waiting[] = [];
  let underWay = 0;
  let isWatched = false;

  const isAnsweringSince = (sinceMs: number) => connection.heardAtMs > sinceMs;
  const refuseOverdue = () => {
    const silentSinceMs = time.nowMs - CALL_BUDGET_MS;
    while (line[0] && line[0].sinceMs <= silentSinceMs && !isAnsweringSince(silentSinceMs))
      line.shift()?.refuse();
    isWatched = line.length > 0;
    if (isWatched) time.after(CALL_BUDGET_MS / 4, refuseOverdue);
  };
  const admitNext = () => {
    underWay -= 1;
    const next = line.shift();
    if (!next) return;
    underWay += 1;
    // If no call was answered meanwhile, Redis is away, and the time in the line counts.
    const waitedMs = isAnsweringSince(next.sinceMs) ? 0 : time.nowMs - next.sinceMs;
    next.begin(CALL_BUDGET_MS - waitedMs);
  };
  const place = () =>
    new Promise<number>((resolve, reject) => {
      line.push({
        sinceMs: time.nowMs,
        begin: resolve,
        refuse: () => reject(failureOf(connection, `no answer within ${CALL_BUDGET_MS} ms`)),
      });
      if (!isWatched) time.after(CALL_BUDGET_MS, refuseOverdue);
      isWatched = true;
    });
  return {
    async run(work) {
      let budgetMs = CALL_BUDGET_MS;
      if (underWay < MAX_CALLS) underWay += 1;
      else budgetMs = await place();
      try {
        return await work(beginCall(connection, budgetMs));
      } finally {
        admitNext();
      }
    },
  };
}

type Outcome<T> = { status: "answered"; value: T } | Unanswered;
type Unanswered = { status: "unsent" } | { status: "lost" | "refused"; problem: unknown };

/** Tries of one command: at most two that were sent, the others found no connection to send on. */
const MAX_SENT = 2;
const MAX_TRIES = 5;
const SHOWN_CHARS = 200;
/** A cluster's client may say these after a first try of its own was sent. */
const CONNECTION_LOST =
  /^(Connection is closed\.|Cluster isn't ready|None of startup nodes|Too many Cluster redirections)/;

/** Begins a call now. */
function beginCall(connection: Connection, budgetMs: number): RedisCall {
  const { time } = connection;
  const endsAtMs = time.nowMs + budgetMs;
  const leftMs = () => Math.max(0, endsAtMs - time.nowMs);
  /** Of the first change of this call that was answered: what fails from then on leaves something done. */
  let done: SafeRepeat | undefined;

  const ask = async <T>(send: (repeated: boolean) => Promise<T>, repeat?: SafeRepeat): Promise<T> => {
    let problem: unknown;
    let sent = 0;
    for (let tries = 0; tries < MAX_TRIES && sent < MAX_SENT && leftMs() > 0; tries++) {
      if (!(await connection.whenReady(leftMs()))) break;
      const patienceMs = sent === 0 ? leftMs() / 2 : leftMs();
      const outcome = await answerTo(connection, () => send(sent > 0), patienceMs, leftMs);
      if (outcome.status === "answered") {
        done ??= repeat;
        return outcome.value;
      }
      if (outcome.status === "unsent") {
        connection.drop();
        continue;
      }
      problem = outcome.problem;
      if (outcome.status === "refused") break;
      sent++;
    }
    throw failureOf(connection, problem, done ?? (sent > 0 ? repeat : undefined));
  };
  return {
    read: (send) => ask(send),
    write: (repeat, send) => ask(send, repeat),
    attempt(work) {
      return new Promise((resolve) => {
        const timer = time.after(leftMs(), resolve);
        void work().then(() => {
          timer.cancel();
          resolve();
        });
      });
    },
  };
}

/**
 * The answer to what `send` sends. It is lost when the socket was silent for `patienceMs`, and the socket is given up
 * then; or when the call has no time left.
 */
async function answerTo<T>(
  connection: Connection,
  send: () => Promise<T>,
  patienceMs: number,
  leftMs: () => number,
): Promise<Outcome<T>> {
  const { time } = connection;
  const sentAtMs = time.nowMs;
  let timer: { cancel(): void } | undefined;
  const silence = new Promise<Outcome<T>>((resolve) => {
    const look = () => {
      const silentMs = time.nowMs - Math.max(sentAtMs, connection.heardAtMs);
      const isSilent = silentMs >= patienceMs;
      if (isSilent) connection.drop(patienceMs);
      if (isSilent || leftMs() === 0) {
        const measured = Math.round(time.nowMs - sentAtMs);
        return resolve({ status: "lost", problem: `no answer within ${measured} ms` });
      }
      timer = time.after(Math.min(patienceMs - silentMs, leftMs()), look);
    };
    timer = time.after(patienceMs, look);
  });
  try {
    return await Promise.race([
      send().then((value): Outcome<T> => ({ status: "answered", value }), classify),
      silence,
    ]);
  } finally {
    timer?.cancel();
  }
}

/** What a rejection of the connection means. Anything that is not Redis' doing is thrown on. */
function classify(error: unknown): Unanswered {
  if (error instanceof SubagentError) throw error;
  const { name, message } = error instanceof Error ? error : { name: "", message: String(error) };
  if (name === "ReplyError") {
    if (message.startsWith("MOVED ")) throw clusterNodeRefused();
    // A replica's READONLY is none of these: the connection asks it again by itself.
    return { status: "refused", problem: error };
  }
  if (message.startsWith(UNSENT)) return { status: "unsent" };
  if (name === "MaxRetriesPerRequestError" || name === "AbortError")
    return { status: "lost", problem: "the connection ended before the answer" };
  if (CONNECTION_LOST.test(message)) return { status: "lost", problem: error };
  throw new SubagentError(
    "protocol_violation",
    `Data in Redis cannot be read (${clip(messageOf(error), SHOWN_CHARS)}): run one version of this package on it.`,
    {},
    error,
  );
}

function failureOf(
  { problem: refusal, closed }: Connection,
  problem: unknown,
  repeat?: SafeRepeat,
): SubagentError {
  if (repeat) {
    const [[field, key] = ["", ""]] = Object.entries(repeat.key);
    const sentence = `Redis did not answer, so it is unknown whether ${repeat.what} happened: the same call with ${field} "${key}" is safe.`;
    return new SubagentError("outcome_unknown", sentence, { ...repeat.key }, problem);
  }
  if (closed) return new SubagentError("closed", "This client was stopped: make a new one.", {}, problem);
  if (problem instanceof Error && problem.name === "ReplyError") {
    const sentence = isOutOfMemory(problem)
      ? `Redis has no memory left (${problem.message}): nothing was done; ${MAKE_ROOM}, and call again.`
      : `Redis refuses this (${problem.message}): nothing was done; call again when Redis accepts commands.`;
    return new SubagentError("redis_unavailable", sentence, {}, problem);
  }
  const why =
    problem === undefined
      ? refusal || `not connected, no answer within ${CALL_BUDGET_MS} ms`
      : messageOf(problem);
  const sentence = `Redis cannot be reached (${why}): nothing was done; call again when it is back.`;
  return new SubagentError("redis_unavailable", sentence, {}, problem);
}

/** A connection of a client as its calls need it. */
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
    const problem = problemOf(error);
    // The call says better how long it waited.
    sockets.problem = problem === UNANSWERED ? "" : problem;
  });
  redis.on("ready", () => {
    sockets.problem = "";
  });
  return sockets;
}
