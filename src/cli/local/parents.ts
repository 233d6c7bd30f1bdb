/** The parents of an installation as the command line sees them: found by the index of parents, read without a trace. */

import { SubagentError } from "../../shared/errors.ts";
import type { AgentRecord } from "../../shared/protocol/agent.ts";
import { type AgentAddress, agentOf, type ParentAddress } from "../../shared/protocol/keys.ts";
import { CEILING, TIMING } from "../../shared/protocol/limits.ts";
import { quoted } from "../../shared/protocol/text.ts";
import type { UsageTotals } from "../../shared/protocol/usage.ts";
import { inBatches } from "../../shared/redis/inspection.ts";
import { readParents } from "../../shared/redis/survey.ts";
import type { CommandContext } from "../command.ts";
import { type AskedInstallation, neededRedisUrl, withInstallation } from "./redis.ts";

/** A parent and what stands about it. */
export interface ParentSnapshot {
  parent: ParentAddress;
  /** Epoch ms, Redis' clock. */
  activeAtMs: number;
  /** Its live agents. */
  agents: AgentRecord[];
  /** What its runs used today (UTC). */
  today: UsageTotals;
  /** Unacked replies, messages and questions. */
  unacked: number;
}

/** What a verb reads with. */
export type Reading = Pick<AskedInstallation, "redis" | "keys" | "store">;

const BATCH = 20;

/**
 * How long after its last activity a parent's keys may still hold what is read: events (a run that began last may take as long as
 * its cap allows), records, usage.
 */
export const KEPT_MS = {
  events: TIMING.eventTtlMs + CEILING.max_duration_ms,
  records: TIMING.registryTtlMs,
  usage: TIMING.usageTtlMs,
} as const;

/** Reads once; throws as {@link readInstallation} does. */
export type ReadInstallation = <T>(read: (reading: Reading) => Promise<T>) => Promise<T>;

/**
 * Reads over a connection of its own. `verb` stands in the refusal. Throws `invalid_config` without REDIS_URL,
 * `redis_unavailable` with the reason.
 */
export function readInstallation<T>(
  context: Pick<CommandContext, "config" | "clock">,
  verb: string,
  read: (reading: Reading) => Promise<T>,
): Promise<T> {
  return withReading(context, verb, (readOnce) => readOnce(read));
}

/** Has `work` read time and again over one connection, which ends with it. Throws as {@link readInstallation} does. */
export function withReading<T>(
  { config, clock }: Pick<CommandContext, "config" | "clock">,
  verb: string,
  work: (read: ReadInstallation) => Promise<T>,
): Promise<T> {
  const redisUrl = neededRedisUrl(config, `${verb} reads the installation on a Redis`);
  return withInstallation(redisUrl, config.prefix, clock, work);
}

/** Which parents are meant: `named` alone, or without it those beside `configured` that were active since `sinceMs` (epoch ms). */
export interface ParentsQuery {
  configured: ParentAddress;
  named: string | undefined;
  sinceMs: number;
}

/**
 * The parents that one name on the command line stands for: `named` alone, or without it `configured` and every parent
 * that `run` or `start` made for itself and that was active since then, the last active first.
 */
export async function resolveParents(
  { redis, keys }: Reading,
  { configured: { tenant, parentId: configured }, named, sinceMs }: ParentsQuery,
): Promise<ParentAddress[]> {
  if (named !== undefined) return [{ tenant, parentId: named }];
  const found = (await readParents(redis, keys, sinceMs)).map(({ parent }) => parent);
  const own = found.filter(
    (parent) => parent.tenant === tenant && parent.parentId.startsWith(`${configured}-`),
  );
  return [{ tenant, parentId: configured }, ...own];
}

/** What stands about each parent that was active since `sinceMs`. */
export async function readParentSnapshots(
  { redis, keys, store }: Reading,
  sinceMs: number,
  nowMs: number,
): Promise<ParentSnapshot[]> {
  const found = await readParents(redis, keys, sinceMs);
  return inBatches(found, BATCH, async ({ parent, activeAtMs }) => {
    const [agents, today, unacked] = await Promise.all([
      store.liveRecords(parent),
      store.usage(parent, nowMs),
      redis.xlen(keys.parent(parent).replies),
    ]);
    return { parent, activeAtMs, agents, today, unacked };
  });
}

/** What `ask` finds at the first of `parents` that has it; a batch of them is asked at a time. */
export async function firstOf<T>(
  parents: readonly ParentAddress[],
  ask: (parent: ParentAddress) => Promise<T | undefined>,
): Promise<T | undefined> {
  for (let start = 0; start < parents.length; start += BATCH) {
    const found = await Promise.all(parents.slice(start, start + BATCH).map(ask));
    const first = found.find((each) => each !== undefined);
    if (first !== undefined) return first;
  }
  return undefined;
}

/** The agent of this id at the first of `parents` that knows it, ended ones included. Throws `unknown_agent`. */
export async function findAgent(
  { store }: Reading,
  parents: readonly ParentAddress[],
  agentId: string,
): Promise<{ address: AgentAddress; record: AgentRecord }> {
  const found = await firstOf(parents, async (parent) => {
    const uid = await store.uidOf(parent, agentId);
    const address = agentOf(parent, uid ?? "");
    const record = uid === undefined ? undefined : await store.record(address);
    return record && { address, record };
  });
  if (found) return found;
  const names = parents
    .map(({ parentId }) => parentId)
    .slice(0, 3)
    .join(", ");
  const sentence = `No sub-agent ${quoted(agentId)} is known to ${names}: subagent-queue ps shows the parents, --parent names one.`;
  throw new SubagentError("unknown_agent", sentence);
}
