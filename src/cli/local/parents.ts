/** The parents of an installation for the command line: found in the index of parents, and only read. */

import { inBatches } from "../../shared/batch.ts";
import { SubagentError } from "../../shared/errors.ts";
import type { AgentRecord } from "../../shared/protocol/agent.ts";
import { type AgentAddress, agentOf, type ParentAddress } from "../../shared/protocol/keys.ts";
import { CEILING, TIMING } from "../../shared/protocol/limits.ts";
import { quoted } from "../../shared/protocol/text.ts";
import { redisNowMs } from "../../shared/redis/redis-time.ts";
import {
  countParents,
  type ParentState,
  readParentState,
  readParents,
  type UnreadableParent,
} from "../../shared/redis/survey.ts";
import { unlessAborted } from "../../shared/stop-signal.ts";
import type { CommandContext } from "../command.ts";
import { type AskedInstallation, requireRedisUrl, withInstallation } from "./redis.ts";

/** A parent and its state in Redis. */
export interface ParentSnapshot extends ParentState {
  parent: ParentAddress;
  /** Epoch ms, Redis' clock. */
  activeAtMs: number;
}

/** The readers of a verb. */
export type Reading = Pick<AskedInstallation, "redis" | "keys" | "store" | "pause" | "workers">;

const BATCH = 20;

/**
 * Time (ms) after a parent's last activity for which its keys may exist: events (plus the longest duration of a run), records,
 * usage.
 */
export const KEPT_MS = {
  events: TIMING.eventTtlMs + CEILING.max_duration_ms,
  records: TIMING.registryTtlMs,
  usage: TIMING.usageTtlMs,
} as const;

/** Makes one read; throws as {@link readInstallation} does. */
export type ReadInstallation = <T>(read: (reading: Reading) => Promise<T>) => Promise<T>;

/** Parts of a command that its reads need. */
type ReadingContext = Pick<CommandContext, "config" | "clock" | "signal">;

/**
 * Makes one read over its own connection. Throws `invalid_config` with the name of `verb` without REDIS_URL, `redis_unavailable`
 * with the reason, and the signal's reason at once when the command must stop: a large installation is read for seconds.
 */
export function readInstallation<T>(
  context: ReadingContext,
  verb: string,
  read: (reading: Reading) => Promise<T>,
): Promise<T> {
  return withReading(context, verb, (readOnce) => readOnce(read));
}

/** Opens one connection for all reads of `work`, then closes it. Throws as {@link readInstallation} does. */
export function withReading<T>(
  { config, clock, signal }: ReadingContext,
  verb: string,
  work: (read: ReadInstallation) => Promise<T>,
): Promise<T> {
  const redisUrl = requireRedisUrl(config, `${verb} reads the installation on a Redis`);
  return withInstallation(redisUrl, config.prefix, clock, (ask) =>
    work((read) => unlessAborted(signal, ask(read))),
  );
}

/** Input of {@link resolveParents}; `activeWithinMs`: greatest time since a parent's last activity. */
export interface ParentsQuery {
  configured: ParentAddress;
  named: string | undefined;
  activeWithinMs: number;
}

/**
 * Returns the parents of a command: only `named` if it is given. Else `configured`, then all parents that `run` or `start`
 * created for themselves and that were active within `activeWithinMs` by Redis' clock, the last active first.
 */
export async function resolveParents(
  { redis, keys }: Reading,
  { configured: { tenant, parentId: configured }, named, activeWithinMs }: ParentsQuery,
): Promise<ParentAddress[]> {
  if (named !== undefined) return [{ tenant, parentId: named }];
  const sinceMs = (await redisNowMs(redis)) - activeWithinMs;
  const found = (await readParents(redis, keys, sinceMs)).map(({ parent }) => parent);
  const own = found.filter(
    (parent) => parent.tenant === tenant && parent.parentId.startsWith(`${configured}-`),
  );
  return [{ tenant, parentId: configured }, ...own];
}

/** The parents that were active within `activeWithinMs` by Redis' clock, at most `most` of them, the last active ones. */
export interface SnapshotsQuery {
  activeWithinMs: number;
  most: number;
}

/**
 * The parents' states at `nowMs` (epoch ms, Redis' clock). `unreadable`: those with data that cannot be read; `more`: the number of
 * those that are left out.
 */
export interface ParentSnapshots {
  nowMs: number;
  snapshots: ParentSnapshot[];
  unreadable: (ParentAddress & UnreadableParent)[];
  more: number;
}

/** Reads the states of parents, the last active first. */
export async function readParentSnapshots(
  reading: Reading,
  { activeWithinMs, most }: SnapshotsQuery,
): Promise<ParentSnapshots> {
  const nowMs = await redisNowMs(reading.redis);
  const { redis, keys } = reading;
  const sinceMs = nowMs - activeWithinMs;
  const found = await readParents(redis, keys, sinceMs, most);
  const active = found.length < most ? 0 : await countParents(redis, keys, sinceMs);
  const read = await inBatches(found, BATCH, async (each) => {
    return { ...each, ...(await readParentState(reading, each.parent, nowMs)) };
  });
  return {
    nowMs,
    snapshots: read.filter((each) => "agents" in each),
    unreadable: read.flatMap((each) => ("problem" in each ? { ...each.parent, problem: each.problem } : [])),
    more: Math.max(0, active - found.length),
  };
}

/** Returns the first result of `ask` in the order of `parents`; asks a batch of parents at a time. */
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

/** Finds the agent, live or ended, at the first of `parents` that knows `agentId`. Throws `unknown_agent`. */
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
  throw unknownTo(parents, `sub-agent ${quoted(agentId)}`);
}

/** Returns the error for what none of the searched `parents` knows, such as `sub-agent "a"`. */
export function unknownTo(parents: readonly ParentAddress[], what: string): SubagentError {
  const names = parents
    .map(({ parentId }) => parentId)
    .slice(0, 3)
    .join(", ");
  const sentence = `No ${what} is known to ${names}: subagent-queue ps shows the parents, --parent names one.`;
  return new SubagentError("unknown_agent", sentence);
}
