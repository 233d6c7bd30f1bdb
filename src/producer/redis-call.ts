/**
 * One call of a producer: its commands, their shared time, and the meaning of a missing answer. Also the connection of the
 * calls: how long to wait for it, when it last received bytes, and how to drop a socket that no longer answers.
 *
 * Owns: the connection, its time ({@link LoopTime}), its running calls, and the calls that wait for a slot.
 *
 * 1. A call answers or rejects within {@link CALL_BUDGET_MS} after it gets a slot, for any number of commands; one of
 *    several steps within that time after its last answer, and at last after {@link MAX_STEPS_MS}. Calls wait for a slot
 *    only while Redis answers others.
 * 2. `redis_unavailable`: no command of the call changed anything. `outcome_unknown`: a command may have changed something,
 *    and the error names the key that makes the same call safe.
 * 3. A command whose answer was lost is sent once more, unchanged: every verb of ours may be repeated.
 * 4. A socket that is silent while a command waits is dropped, so that the next command uses a new one. A socket that
 *    answers other commands is kept: its answer is only late, because this process or Redis is busy.
 * 5. `whenReady` is correct at the moment it resolves and resolves within its time.
 */

import { type Clock, LoopTime } from "../shared/clock.ts";
import { type ErrorCode, isWrongType, messageOf, SubagentError } from "../shared/errors.ts";
import { LinkedList } from "../shared/linked-list.ts";
import type { Logger } from "../shared/logger.ts";
import { clip } from "../shared/protocol/text.ts";
import { UNSENT } from "../shared/redis/connection/cluster.ts";
import {
  canSend,
  closeRedis,
  clusterNodeRefused,
  openRedis,
  type RedisClient,
  type RedisRole,
  refuseWrongServer,
} from "../shared/redis/connection/connection.ts";
import {
  isDiskRefusal,
  isOutOfMemory,
  MAKE_ROOM,
  REPAIR_DISK,
} from "../shared/redis/connection/server-check.ts";
import { type Sockets, watchSockets } from "../shared/redis/connection/socket-watch.ts";

/** Maximum time of a call, ms: a second, less the time that a busy process needs to notice its end. */
export const CALL_BUDGET_MS = 800;
/**
 * A socket that is silent for so long while a command waits is dropped, ms. No shorter in a call with less time left: the other side
 * of a slow line answers late, and a dropped socket costs all calls under way their answers.
 */
const SILENT_MS = CALL_BUDGET_MS / 2;
/** A call of steps ends so long after it began, plus its own time, ms: others who change the same cannot keep it going. */
const MAX_STEPS_MS = 10_000;
/** Default number of slots: as many calls run at a time; further ones wait for a slot, in order. */
const MAX_CALLS = 256;

/**
 * The key that makes the repetition of a call safe, e.g. `{ what: "the spawn", key: { request_key: "…" } }`. `over`: the error
 * with which a repetition is refused if the first call has worked.
 */
export interface SafeRepeat {
  what: string;
  key: Readonly<Record<string, string>>;
  over?: ErrorCode;
}

/** The commands of one call; they share its time. */
export interface RedisCall {
  /** For reads, and for writes that a sweeper or the next call repeats. Rejects with `redis_unavailable` or `closed`. */
  read<T>(send: () => Promise<T>): Promise<T>;
  /**
   * For a repeatable change; `repeated`: an earlier attempt may have worked. `hasChanged`: false for an answer that refuses, so
   * nothing was changed; default: always true. Rejects as `read` or with `outcome_unknown`.
   */
  write<T>(
    repeat: SafeRepeat,
    send: (repeated: boolean) => Promise<T>,
    hasChanged?: (answer: T) => boolean,
  ): Promise<T>;
  /** Waits for work that a sweeper repeats, at most for the rest of the call's time. The work must not reject. */
  attempt(work: () => Promise<void>): Promise<void>;
}

/** Runs `work` as one call as soon as a slot is free. Rejects as the call's commands do. */
export type RunCall = <T>(work: (call: RedisCall) => Promise<T>) => Promise<T>;
/** Runs a call that is one read: {@link RedisCall.read} of `send`. */
export type RunRead = RedisCall["read"];

/** The calls of a connection. `steps`: a call of which each command has the time of a call, for more of them than a slow line carries in one. */
export interface RedisCalls {
  call: RunCall;
  steps: RunCall;
  read: RunRead;
}

/** A call that waits for a slot: ends with `begin`, which takes the call's time, or `refuse`. */
interface Waiting {
  readonly sinceMs: number;
  begin(budgetMs: number): void;
  refuse(): void;
}

/** Creates calls on `connection`, of which at most `most` run at a time. */
export function createRedisCalls(connection: Connection, most = MAX_CALLS): RedisCalls {
  const { time } = connection;
  const line = new LinkedList<Waiting>();
  let underWay = 0;
  let isWatched = false;

  const isAnsweringSince = (sinceMs: number) => connection.answeredAtMs() > sinceMs;
  const refuseOverdue = () => {
    const silentSinceMs = time.nowMs - CALL_BUDGET_MS;
    const isOverdue = ({ sinceMs }: Waiting) => sinceMs <= silentSinceMs && !isAnsweringSince(silentSinceMs);
    while (line.first && isOverdue(line.first)) line.shift()?.refuse();
    isWatched = !line.isEmpty;
    if (isWatched) time.after(CALL_BUDGET_MS / 4, refuseOverdue);
  };
  const admitNext = () => {
    underWay -= 1;
    const next = line.shift();
    if (!next) return;
    underWay += 1;
    // If Redis answered no call meanwhile, it is unavailable, and the time in the queue counts.
    const waitedMs = isAnsweringSince(next.sinceMs) ? 0 : time.nowMs - next.sinceMs;
    next.begin(CALL_BUDGET_MS - waitedMs);
  };
  const waitForSlot = () =>
    new Promise<number>((resolve, reject) => {
      line.add({
        sinceMs: time.nowMs,
        begin: resolve,
        refuse: () => reject(failureOf(connection, `no answer within ${CALL_BUDGET_MS} ms`)),
      });
      if (!isWatched) time.after(CALL_BUDGET_MS, refuseOverdue);
      isWatched = true;
    });
  const inSlot = async <T>(work: (call: RedisCall) => Promise<T>, hasSteps: boolean): Promise<T> => {
    let budgetMs = CALL_BUDGET_MS;
    if (underWay < most) underWay += 1;
    else budgetMs = await waitForSlot();
    try {
      return await work(beginCall(connection, budgetMs, hasSteps));
    } finally {
      admitNext();
    }
  };
  const call: RunCall = (work) => inSlot(work, false);
  const steps: RunCall = (work) => inSlot(work, true);
  return { call, steps, read: (send) => call(({ read }) => read(send)) };
}

type Outcome<T> = { status: "answered"; value: T } | Unanswered;
type Unanswered = { status: "unsent" } | { status: "lost" | "refused"; problem: unknown };

/** A command is sent at most MAX_SENT times. Further tries, up to MAX_TRIES, found no connection to send it on. */
const MAX_SENT = 2;
const MAX_TRIES = 5;
/** Refusal of a server that may be a Sentinel: a client that was not started finds that out with its first call. */
const UNKNOWN_COMMAND = /^ERR unknown command/;
/** Errors that a cluster's client may throw after it has sent the command once. */
const CONNECTION_LOST =
  /^(Connection is closed\.|Cluster isn't ready|None of startup nodes|Too many Cluster redirections)/;

/** Begins a call now; `hasSteps`: each of its commands has the time of a call. */
function beginCall(connection: Connection, budgetMs: number, hasSteps: boolean): RedisCall {
  const { time } = connection;
  let endsAtMs = time.nowMs + budgetMs;
  const lastEndMs = endsAtMs + MAX_STEPS_MS;
  const leftMs = () => Math.max(0, endsAtMs - time.nowMs);
  /** The first answered change of this call: a later failure leaves this change in place. */
  let done: SafeRepeat | undefined;

  const ask = async <T>(
    send: (repeated: boolean) => Promise<T>,
    repeat?: SafeRepeat,
    hasChanged: (answer: T) => boolean = () => true,
  ): Promise<T> => {
    let problem: unknown;
    let sent = 0;
    for (let tries = 0; tries < MAX_TRIES && sent < MAX_SENT && leftMs() > 0; tries++) {
      if (!(await connection.whenReady(leftMs()))) break;
      const outcome = await answerTo(connection, () => send(sent > 0), leftMs);
      if (outcome.status === "answered") {
        // An attempt whose answer was lost may have changed what this one found.
        if (sent > 0 || hasChanged(outcome.value)) done ??= repeat;
        if (hasSteps) endsAtMs = Math.min(time.nowMs + CALL_BUDGET_MS, lastEndMs);
        return outcome.value;
      }
      if (outcome.status === "unsent") {
        connection.drop();
        continue;
      }
      problem = outcome.problem;
      if (UNKNOWN_COMMAND.test(messageOf(problem)))
        await answerTo(connection, () => refuseWrongServer(connection.redis), leftMs);
      if (outcome.status === "refused") break;
      sent++;
    }
    throw failureOf(connection, problem, done ?? (sent > 0 ? repeat : undefined));
  };
  return {
    read: (send) => ask(send),
    write: (repeat, send, hasChanged) => ask(send, repeat, hasChanged),
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
 * Sends a command with `send` and waits for its answer. The answer counts as lost if the socket is silent for {@link SILENT_MS}
 * (it is then dropped), or if the call has no time left.
 */
async function answerTo<T>(
  connection: Connection,
  send: () => Promise<T>,
  leftMs: () => number,
): Promise<Outcome<T>> {
  const { time } = connection;
  const sentAtMs = time.nowMs;
  let timer: { cancel(): void } | undefined;
  const silence = new Promise<Outcome<T>>((resolve) => {
    const checkSilence = () => {
      const silentMs = time.nowMs - Math.max(sentAtMs, connection.silentSinceMs(sentAtMs));
      const isSilent = silentMs >= SILENT_MS;
      if (isSilent) connection.drop(SILENT_MS);
      if (isSilent || leftMs() === 0) {
        const measured = Math.round(time.nowMs - sentAtMs);
        return resolve({ status: "lost", problem: `no answer within ${measured} ms` });
      }
      timer = time.after(Math.min(SILENT_MS - silentMs, leftMs()), checkSilence);
    };
    timer = time.after(Math.min(SILENT_MS, leftMs()), checkSilence);
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

/** Returns the outcome for a rejected command. Rethrows our own errors; throws `protocol_violation` for unreadable data. */
function classify(error: unknown): Unanswered {
  if (error instanceof SubagentError) throw error;
  const { name, message } = error instanceof Error ? error : { name: "", message: String(error) };
  if (name === "ReplyError") {
    if (message.startsWith("MOVED ")) throw clusterNodeRefused();
    // A replica's READONLY does not arrive here: the connection itself sends the command again.
    return { status: "refused", problem: error };
  }
  if (message.startsWith(UNSENT)) return { status: "unsent" };
  if (name === "MaxRetriesPerRequestError" || name === "AbortError")
    return { status: "lost", problem: "the connection ended before the answer" };
  if (CONNECTION_LOST.test(message)) return { status: "lost", problem: error };
  throw new SubagentError(
    "protocol_violation",
    `Data in Redis cannot be read (${clip(messageOf(error), 200)}): run one version of this package on it.`,
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
    const over = repeat.over === undefined ? "" : `; ${repeat.over} then says that it did`;
    const sentence = `Redis did not answer, so it is unknown whether ${repeat.what} happened: the same call with ${field} "${key}" is safe${over}.`;
    return new SubagentError("outcome_unknown", sentence, { ...repeat.key }, problem);
  }
  if (closed) return new SubagentError("closed", "This client was stopped: make a new one.", {}, problem);
  if (problem instanceof Error && problem.name === "ReplyError") {
    return new SubagentError("redis_unavailable", refusedSentence(problem), {}, problem);
  }
  if (problem === undefined && refusal.startsWith("READONLY ")) {
    const sentence =
      "Redis is a read-only replica: nothing was done; write the address of its master, or call again when it is the master.";
    return new SubagentError("redis_unavailable", sentence);
  }
  const why =
    problem === undefined
      ? refusal || `not connected, no answer within ${CALL_BUDGET_MS} ms`
      : messageOf(problem);
  const sentence = `Redis cannot be reached (${why}): nothing was done; call again when it is back.`;
  return new SubagentError("redis_unavailable", sentence, {}, problem);
}

function refusedSentence(problem: Error): string {
  const { message } = problem;
  if (isOutOfMemory(problem))
    return `Redis has no memory left (${message}): nothing was done; ${MAKE_ROOM}, and call again.`;
  if (isDiskRefusal(problem))
    return `Redis refuses writes (${message}): nothing was done; ${REPAIR_DISK}, and call again.`;
  if (isWrongType(problem))
    return `A key in Redis has a type that this product never writes there (${message}): nothing was done; run subagent-queue doctor, which names it, put it right, and call again.`;
  return `Redis refuses this (${message}): nothing was done; call again when Redis accepts commands.`;
}

/** A client's connection in the form that its calls use; times are those of {@link Connection.time}. */
export interface Connection extends Readonly<Sockets> {
  readonly redis: RedisClient;
  /** The time that measures waits on this connection. */
  readonly time: Pick<Readonly<LoopTime>, "nowMs" | "after">;
  /** Resolves with true as soon as commands can be sent, with false if they cannot within `withinMs`. */
  whenReady(withinMs: number): Promise<boolean>;
  /** Calls `listener` each time the connection has become ready. */
  onReady(listener: () => void): void;
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
    answeredAtMs: sockets.answeredAtMs,
    silentSinceMs: sockets.silentSinceMs,
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
