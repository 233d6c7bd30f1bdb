/**
 * One place for what can happen to a question put to Redis: it is away, its answer gets lost, it refuses.
 *
 * Owns nothing but the time of one call. Its neighbour `link.ts` owns the connection.
 *
 * 1. A call answers or rejects within {@link CALL_BUDGET_MS}, however many questions it asks.
 * 2. `redis_unavailable`: nothing was done. `outcome_unknown`: something may have been done, and the error names what
 *    makes the same call safe.
 * 3. A question whose answer was lost is put once more, word for word: every verb of ours may be repeated.
 * 4. A socket that is silent while a question waits is given up, so that the next one goes over a new one. One that
 *    answers others is not: then the question is only late, because this process or Redis is busy.
 */
import type { Clock } from "../shared/clock.ts";
import { messageOf, SubagentError } from "../shared/errors.ts";
import { clusterNodeRefused } from "../shared/redis/connection.ts";
import type { Link } from "./link.ts";

/** Longest time of a producer's call: a second, less what a busy process needs to notice. */
export const CALL_BUDGET_MS = 800;

/** Names what makes the repetition of a call safe, e.g. `{ what: "the spawn", key: { request_key: "…" } }`. */
export interface SafeRepeat {
  what: string;
  key: Readonly<Record<string, string>>;
}

/** The questions of one call; they share its time. */
export interface Call {
  /** A question that changes nothing. Rejects with `redis_unavailable` or `closed`. */
  read<T>(question: () => Promise<T>): Promise<T>;
  /** A change that may be repeated; `repeated` says that an earlier try may have happened. Also `outcome_unknown`. */
  write<T>(repeat: SafeRepeat, question: (repeated: boolean) => Promise<T>): Promise<T>;
  /** Work that somebody else makes good when it fails: waits for it while there is time, and never rejects. */
  hint(work: () => Promise<unknown>, failed: (error: unknown) => void): Promise<void>;
}

type Outcome<T> =
  | { status: "answered"; value: T }
  | { status: "unsent" | "lost" | "refused"; problem: unknown };

/** Tries of one question: at most two that were sent, the others found no connection to send on. */
const MAX_SENT = 2;
const MAX_TRIES = 5;
const SHOWN_CHARS = 200;
/** A cluster's client may say these after a first try of its own was sent. */
const CONNECTION_LOST =
  /^(Connection is closed\.|Cluster isn't ready|None of startup nodes|Too many Cluster redirections)/;

/** Begins a call now. */
export function beginCall(link: Link, clock: Clock, budgetMs: number = CALL_BUDGET_MS): Call {
  const endsAt = clock.monotonicMs() + budgetMs;
  const leftMs = () => Math.max(0, endsAt - clock.monotonicMs());

  const tryOnce = async <T>(question: () => Promise<T>, patienceMs: number): Promise<Outcome<T>> => {
    const impatience = silence(link, clock, patienceMs, leftMs);
    try {
      return await Promise.race([
        question().then((value): Outcome<T> => ({ status: "answered", value }), classify),
        impatience.over.then((): Outcome<T> => ({ status: "lost", problem: "no answer in time" })),
      ]);
    } finally {
      impatience.cancel();
    }
  };
  const ask = async <T>(question: (repeated: boolean) => Promise<T>, repeat?: SafeRepeat): Promise<T> => {
    let problem: unknown;
    let sent = 0;
    for (let tries = 0; tries < MAX_TRIES && sent < MAX_SENT && leftMs() > 0; tries++) {
      if (!(await link.whenReady(leftMs()))) break;
      const outcome = await tryOnce(() => question(sent > 0), sent === 0 ? leftMs() / 2 : leftMs());
      if (outcome.status === "answered") return outcome.value;
      problem = outcome.problem;
      if (outcome.status === "refused") break;
      if (outcome.status === "lost") sent++;
      else link.drop();
    }
    throw failureOf(
      problem ?? (link.problem || "no connection in time"),
      sent > 0 ? repeat : undefined,
      link.closed,
    );
  };
  return {
    read: (question) => ask(question),
    write: (repeat, question) => ask(question, repeat),
    async hint(work, failed) {
      if (link.redis.status !== "ready") return failed("not connected");
      const done = work().catch(failed);
      let timer: { cancel(): void } | undefined;
      const timeUp = new Promise<void>((resolve) => {
        timer = clock.timeout(leftMs(), resolve);
      });
      await Promise.race([done, timeUp]);
      timer?.cancel();
    },
  };
}

/**
 * Resolves when the socket has been silent for `patienceMs` since now, and gives it up then; or when no time is left.
 * Each look waits for one more turn of the event loop: what has arrived while this process was busy counts.
 */
function silence(link: Link, clock: Clock, patienceMs: number, leftMs: () => number) {
  const sentAtMs = clock.monotonicMs();
  let timer: { cancel(): void } | undefined;
  const over = new Promise<void>((resolve) => {
    const look = () => {
      const silentMs = clock.monotonicMs() - Math.max(sentAtMs, link.heardAtMs);
      const silent = silentMs >= patienceMs;
      if (silent) link.drop(patienceMs);
      if (silent || leftMs() === 0) return resolve();
      wait(Math.min(patienceMs - silentMs, leftMs()));
    };
    const wait = (ms: number) => {
      timer = clock.timeout(ms, () => {
        timer = clock.timeout(0, look);
      });
    };
    wait(patienceMs);
  });
  return { over, cancel: () => timer?.cancel() };
}

/** What a rejection of the connection means. Anything that is not Redis' doing is thrown on. */
function classify(error: unknown): { status: "unsent" | "lost" | "refused"; problem: unknown } {
  if (error instanceof SubagentError) throw error;
  const { name, message } = error instanceof Error ? error : { name: "", message: String(error) };
  if (name === "ReplyError") {
    if (message.startsWith("MOVED ")) throw clusterNodeRefused();
    const readOnly = message.startsWith("READONLY");
    return { status: readOnly ? "unsent" : "refused", problem: error };
  }
  if (message.startsWith("Stream isn't writeable")) return { status: "unsent", problem: error };
  if (name === "MaxRetriesPerRequestError" || name === "AbortError" || CONNECTION_LOST.test(message))
    return { status: "lost", problem: error };
  throw new SubagentError(
    "protocol_violation",
    `What Redis holds cannot be read (${message.slice(0, SHOWN_CHARS)}): run one version of this package on it.`,
    {},
    error,
  );
}

function failureOf(problem: unknown, repeat: SafeRepeat | undefined, closed: boolean): SubagentError {
  const why = messageOf(problem);
  if (repeat) {
    const [[field, key] = ["", ""]] = Object.entries(repeat.key);
    const sentence = `Redis did not answer, so it is unknown whether ${repeat.what} happened: the same call with ${field} "${key}" is safe.`;
    return new SubagentError("outcome_unknown", sentence, { ...repeat.key }, problem);
  }
  if (closed) return new SubagentError("closed", "This client was stopped: make a new one.", {}, problem);
  const refuses = problem instanceof Error && problem.name === "ReplyError";
  return new SubagentError(
    "redis_unavailable",
    refuses
      ? `Redis refuses this (${why}): nothing was done; call again when it is well.`
      : `Redis cannot be reached (${why}): nothing was done; call again when it is back.`,
    {},
    problem,
  );
}
