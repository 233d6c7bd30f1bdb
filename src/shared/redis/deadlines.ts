/**
 * The deadline set: when a sweeper must check an agent, or a parent with a lease. It is a hint in a slot of its own; the
 * records decide.
 *
 * 1. A caller that makes a deadline earlier hints to the set before the verb that needs it, within the grace: the shorter of
 *    lease and `checkMs`. If the verb arrives later, the sweeper finds its change at the check set by the old state. On a
 *    cluster a spawn and a claim wait for their hint. A release, a question and a settle need not: the check of the lease that
 *    they end is already set.
 * 2. Only a sweeper moves a member later, and only if no caller hinted at it since the sweeper read it.
 * 3. After every hint the set has a check at the end of its grace or later, so that a sweeper sees the effect of the verb.
 */
import {
  type AgentAddress,
  addressOfMember,
  deadlineMember,
  type Keys,
  type ParentAddress,
  parentMember,
  parentOfMember,
} from "../protocol/keys.ts";
import type { Timing } from "../protocol/limits.ts";
import type { RedisClient } from "./connection/connection.ts";
import { loadScripts } from "./scripts.ts";

/**
 * An agent that a sweeper has taken is hidden from the others this long. It is short because the answer that names the agent
 * may be lost, and a second check does no harm.
 */
export const HIDDEN_MS = 1_000;

/** A due agent, or a parent that held a lease; neither if the member names none. */
export interface Due {
  member: string;
  seenScore: number;
  /** Time at which it was read: epoch ms of the server with the deadline set. */
  nowMs: number;
  /** Mark of the newest hint; empty when none is remembered. */
  seenGrace: string;
  address: AgentAddress | undefined;
  parent?: ParentAddress | undefined;
}

/** The next check of a member: `at` (epoch ms of Redis), or never if undefined. */
export interface NextCheck {
  due: Due;
  at: number | undefined;
}

/** Returns the delay of the next check of an agent whose job has waited `waitedMs` since its deadline: 20, 40, then 60 s. */
export function nextCheckDelayMs(waitedMs: number, { checkMs, longestCheckMs }: Timing): number {
  return Math.min(waitedMs + 2 * checkMs, longestCheckMs);
}

/** See the module's header. */
export interface DeadlineSet {
  /** True if a hint reaches Redis before a verb sent after it. False on a cluster: each node has its own connection. */
  readonly isOrdered: boolean;
  /** Makes a sweeper check the agent in `inMs` or earlier. */
  hint(address: AgentAddress, inMs: number): Promise<void>;
  /** The same for a call of the agent's parent: the index of parents then has it as active now. */
  hintByParent(address: AgentAddress, inMs: number): Promise<void>;
  /** Makes a sweeper check in `inMs` whether the parent still holds its lease. */
  hintParent(parent: ParentAddress, inMs: number): Promise<void>;
  /** Takes up to `limit` due agents; they are hidden from other sweepers for `hiddenMs`. */
  due(limit: number, hiddenMs: number): Promise<Due[]>;
  /** Sets the next checks, none later than the end of a running grace. A member hinted at since it was read stays unchanged. */
  move(checks: readonly NextCheck[]): Promise<void>;
}

/** Returns the deadline set on `redis`. */
export function createDeadlineSet(redis: RedisClient, keys: Keys, timing: Timing): DeadlineSet {
  const scripts = loadScripts(redis, keys, timing);
  const hint = async (address: AgentAddress, inMs: number, by_parent: boolean) => {
    await scripts.run("deadline-hint", undefined, {
      member: deadlineMember(address),
      parent: parentMember(address),
      by_parent,
      tenant: address.tenant,
      in_ms: Math.ceil(inMs),
    });
  };
  return {
    isOrdered: !redis.isCluster,
    hint: (address, inMs) => hint(address, inMs, false),
    hintByParent: (address, inMs) => hint(address, inMs, true),
    async hintParent(parent, inMs) {
      await scripts.run("deadline-hint", undefined, {
        member: parentMember(parent),
        by_parent: false,
        tenant: parent.tenant,
        in_ms: Math.ceil(inMs),
      });
    },
    async due(limit, hiddenMs) {
      const answer = await scripts.run("deadline-due", undefined, { limit, hidden_ms: hiddenMs });
      return answer.members.map(({ member, grace }) => ({
        member,
        seenScore: answer.score,
        nowMs: answer.score - hiddenMs,
        seenGrace: grace,
        address: addressOfMember(member),
        parent: parentOfMember(member),
      }));
    },
    async move(checks) {
      if (checks.length === 0) return;
      await scripts.run("deadline-move", undefined, {
        moves: checks.map(
          ({ due: { member, seenScore, seenGrace }, at }) =>
            [member, `${seenScore}`, seenGrace, at === undefined ? "" : `${at}`] as const,
        ),
      });
    },
  };
}
