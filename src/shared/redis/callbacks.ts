/**
 * Threads of another server that wait for runs of ours: which one each thread of ours calls back, and the agents whose end
 * is still to be told.
 *
 * 1. A note is deleted once the end was told, or can no longer be told: a receiver may be told twice, and is never forgotten.
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
import type { RedisClient } from "./connection/connection.ts";
import { createLocks } from "./lock.ts";
import { redisNowMs } from "./redis-time.ts";

/** A thread without a run for so long calls back no more. */
const CALLBACK_KEPT_MS = 7 * 24 * 3_600_000;
/** A process that dies while it tells lets the next one do so after this time. */
const LOCK_MS = 60_000;
const AT_A_TIME = 20;

/** See the module's header. Commands reject as the connection does. */
export interface Callbacks {
  /** From now on `threadId` calls back the other server's `callbackThreadId`. */
  set(parent: ParentAddress, threadId: string, callbackThreadId: string): Promise<void>;
  /** The thread that `threadId` calls back; keeps it for another week. */
  get(parent: ParentAddress, threadId: string): Promise<string | undefined>;
  /** Notes an agent whose end is to be told: no process looks at it for `inMs`. */
  note(agent: AgentAddress, inMs: number): Promise<void>;
  /** Notes that are due, 20 at most; the process with `token` has the turn to see to them. Empty while another has it. */
  due(token: string): Promise<AgentAddress[]>;
  /** Looks at a note again in so long; does not bring back one that is gone. */
  later(agent: AgentAddress, inMs: number): Promise<void>;
  forget(agent: AgentAddress): Promise<void>;
  /** Lets another process see to the notes. */
  giveUp(token: string): Promise<void>;
}

/** The callbacks of an installation. */
export function createCallbacks(redis: RedisClient, keys: Keys): Callbacks {
  const { callbacks, callbackLock } = keys;
  const locks = createLocks(redis, keys);
  const inFuture = async (inMs: number) => (await redisNowMs(redis)) + inMs;
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
      await redis.zadd(callbacks, await inFuture(inMs), deadlineMember(agent));
    },
    async due(token) {
      if (!(await locks.hold(callbackLock, token, LOCK_MS))) return [];
      const members = await redis.zrangebyscore(callbacks, "-inf", await inFuture(0), "LIMIT", 0, AT_A_TIME);
      const strays = members.filter((member) => !addressOfMember(member));
      if (strays.length > 0) await redis.zrem(callbacks, ...strays);
      return members.flatMap((member) => addressOfMember(member) ?? []);
    },
    async later(agent, inMs) {
      await redis.zadd(callbacks, "XX", await inFuture(inMs), deadlineMember(agent));
    },
    async forget(agent) {
      await redis.zrem(callbacks, deadlineMember(agent));
    },
    giveUp: (token) => locks.release(callbackLock, token),
  };
}
