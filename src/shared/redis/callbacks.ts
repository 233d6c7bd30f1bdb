/**
 * Callbacks to threads of another server: the thread that each of our threads calls back, and the agents whose end is still
 * to be reported.
 *
 * 1. A note is deleted once the end was told, or can no longer be told: a receiver may be told twice, and is never
 *    forgotten.
 * 2. One process at a time reads the notes; if it dies, the next one takes over after {@link LOCK_MS}.
 *
 * An agent is noted before it is spawned: a process that dies in between leaves a note about no agent, which is dropped.
 */
import {
  type AgentAddress,
  addressOfMember,
  deadlineMember,
  type Keys,
  type ParentAddress,
} from "../protocol/keys.ts";
import { TIMING } from "../protocol/limits.ts";
import { DAY_MS } from "../protocol/usage.ts";
import type { RedisClient } from "./connection/connection.ts";
import { redisNowMs } from "./redis-time.ts";
import { loadScripts } from "./scripts.ts";

/** A thread without a run for this long loses its callback: longer than a run and the attempts to report its end can last. */
const CALLBACK_KEPT_MS = 9 * DAY_MS;
const LOCK_MS = 60_000;
/** Notes per call of `due`. */
export const NOTES_AT_A_TIME = 100;

/** An agent whose end must be reported, and its status: `unknown` if it has no record. */
export interface CallbackNote {
  agent: AgentAddress;
  status: "at_work" | "ended" | "unknown";
  /** Time since its spawn, ms; 0 if that cannot be read. */
  ageMs: number;
}

/** A note that is checked again after `inMs`. */
export interface PostponedNote {
  agent: AgentAddress;
  inMs: number;
}

/** See the module's header. Commands reject as the connection does. */
export interface Callbacks {
  /** Sets the other server's `callbackThreadId` as the callback of `threadId`. */
  set(parent: ParentAddress, threadId: string, callbackThreadId: string): Promise<void>;
  /** Reads the thread that `threadId` calls back, and renews its TTL. */
  get(parent: ParentAddress, threadId: string): Promise<string | undefined>;
  /** Notes an agent whose end must be reported; no process checks it for `inMs`. */
  note(agent: AgentAddress, inMs: number): Promise<void>;
  /** Reads Redis' time, epoch ms. */
  nowMs(): Promise<number>;
  /**
   * Takes or extends the lock for the process with `token`, and reads notes that were due at `untilMs`,
   * {@link NOTES_AT_A_TIME} at most. Empty while another process has the lock.
   */
  due(token: string, untilMs: number): Promise<CallbackNote[]>;
  /** Postpones notes, each by its own time, in one command; does not restore deleted ones. */
  later(notes: readonly PostponedNote[]): Promise<void>;
  forget(agents: readonly AgentAddress[]): Promise<void>;
  /** Releases the lock for another process. */
  giveUp(token: string): Promise<void>;
}

/** Returns the callbacks of an installation. */
export function createCallbacks(redis: RedisClient, keys: Keys): Callbacks {
  const { callbacks, callbackLock: lock } = keys;
  const scripts = loadScripts(redis, keys, TIMING);
  /** Reads a note. An unreadable record counts as `at_work` and is checked again: it delays no other report. */
  const readNote = async (agent: AgentAddress, nowMs: number): Promise<CallbackNote> => {
    const fields = redis.hmget(keys.agent(agent).record, "status", "created_at");
    const [status = null, createdAt] = await fields.catch(() => [""]);
    const ageMs = Math.max(0, nowMs - Number.parseInt(createdAt ?? "", 10)) || 0;
    return { agent, status: status === null ? "unknown" : status === "ended" ? "ended" : "at_work", ageMs };
  };
  return {
    async set(parent, threadId, callbackThreadId) {
      await redis.set(keys.parent(parent).callback(threadId), callbackThreadId, "PX", CALLBACK_KEPT_MS);
    },
    async get(parent, threadId) {
      const key = keys.parent(parent).callback(threadId);
      const found = await redis.get(key);
      if (found !== null) await redis.pexpire(key, CALLBACK_KEPT_MS);
      return found ?? undefined;
    },
    async note(agent, inMs) {
      await redis.zadd(callbacks, (await redisNowMs(redis)) + inMs, deadlineMember(agent));
    },
    nowMs: () => redisNowMs(redis),
    async due(token, untilMs) {
      const { status } = await scripts.run("lock-hold", undefined, { lock, token, ms: LOCK_MS });
      if (status !== "held") return [];
      const members = await redis.zrangebyscore(callbacks, "-inf", untilMs, "LIMIT", 0, NOTES_AT_A_TIME);
      const agents = members.flatMap((member) => addressOfMember(member) ?? []);
      const own = new Set(agents.map(deadlineMember));
      const strays = members.filter((member) => !own.has(member));
      if (strays.length > 0) await redis.zrem(callbacks, ...strays);
      return Promise.all(agents.map((agent) => readNote(agent, untilMs)));
    },
    async later(notes) {
      if (notes.length === 0) return;
      const nowMs = await redisNowMs(redis);
      const scores = notes.flatMap(({ agent, inMs }) => [nowMs + inMs, deadlineMember(agent)]);
      await redis.zadd(callbacks, "XX", ...scores);
    },
    async forget(agents) {
      if (agents.length > 0) await redis.zrem(callbacks, ...agents.map(deadlineMember));
    },
    async giveUp(token) {
      await scripts.run("lock-release", undefined, { lock, token });
    },
  };
}
