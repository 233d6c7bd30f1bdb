/**
 * The deadline set: which agents somebody must look at, and when. A hint in a slot of its own; the records decide.
 *
 * 1. Whoever makes a deadline earlier touches the set before the verb that needs it, within the grace: the shorter of lease
 *    and look time. A verb that arrives later is found by the look at the deadline of the state before it.
 * 2. Only a sweeper makes a hint later, and only if nobody touched it since it was seen.
 * 3. Behind every touch there is a look at the end of its grace or later, so that the verb's outcome is seen.
 */
import { type AgentAddress, addressOfMember, deadlineMember, type Keys } from "../protocol/keys.ts";
import type { Timing } from "../protocol/timing.ts";
import type { RedisClient } from "./connection.ts";
import { loadScripts } from "./scripts.ts";

/** A due agent; `address` is undefined for a member that names none. */
export interface Due {
  member: string;
  seenScore: number;
  /** Mark of the newest touch; empty when none is remembered. */
  seenTouch: string;
  address: AgentAddress | undefined;
}

/** See the module's header. */
export interface DeadlineSet {
  /** Somebody must look at the agent in `inMs` or earlier. */
  touch(address: AgentAddress, inMs: number): Promise<void>;
  /** Up to `limit` due agents; they are hidden from other sweepers for `hiddenMs`. */
  due(limit: number, hiddenMs: number): Promise<Due[]>;
  /** Next look at `at` (epoch ms of Redis), or at the end of a touch's grace; unless touched since it was seen. */
  move(due: Due, at: number): Promise<void>;
  /** No further look, with the same reservations. */
  forget(due: Due): Promise<void>;
}

/** The deadline set on `redis`. */
export function createDeadlineSet(redis: RedisClient, keys: Keys, timing: Timing): DeadlineSet {
  const scripts = loadScripts(redis);
  const { deadlines, touched } = keys;
  const graceMs = Math.min(timing.leaseMs, timing.lookMs);
  const move = async ({ member, seenScore, seenTouch }: Due, at: number | "") => {
    await scripts.run(
      "deadline-move",
      { deadlines, touched },
      { member, seen_score: seenScore, seen_touch: seenTouch, at },
    );
  };
  return {
    async touch(address, inMs) {
      await scripts.run(
        "deadline-touch",
        { deadlines, touched },
        { member: deadlineMember(address), in_ms: Math.ceil(inMs), grace_ms: graceMs },
      );
    },
    async due(limit, hiddenMs) {
      const { rest } = await scripts.run(
        "deadline-due",
        { deadlines, touched },
        { limit, hidden_ms: hiddenMs },
      );
      const found: Due[] = [];
      for (let i = 0; i + 2 < rest.length; i += 3) {
        const member = rest[i] ?? "";
        const [seenScore, seenTouch = ""] = [Number(rest[i + 1]), rest[i + 2]];
        found.push({ member, seenScore, seenTouch, address: addressOfMember(member) });
      }
      return found;
    },
    move,
    forget: (due) => move(due, ""),
  };
}
