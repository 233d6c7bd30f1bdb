/**
 * Examines an installation while it works. Owns one connection, changes nothing.
 *
 * 1. A trouble of an agent is reported only if two snapshots show it, because one may fall between two writes.
 * 2. The keys of one slot are read at one moment; keys of several slots are read in the reverse of the order in which a
 *    healthy system writes them.
 * 3. A key of an agent or the installation with a wrong type or value does not stop the examination of all others.
 *
 * The work is bounded: it reads pages of a scan and batches of agents, and stops at `bounds`.
 */
import { once } from "node:events";
import { inBatches } from "../../shared/batch.ts";
import type { Clock } from "../../shared/clock.ts";
import type { Logger } from "../../shared/logger.ts";
import { AgentSpecJson } from "../../shared/protocol/agent.ts";
import type { AgentAddress } from "../../shared/protocol/keys.ts";
import type { Timing } from "../../shared/protocol/limits.ts";
import { type BoundBudget, budgetsOf, readUsedShare } from "../../shared/redis/budget.ts";
import { closeRedis, openRedis, serversOf } from "../../shared/redis/connection/connection.ts";
import { checkServer } from "../../shared/redis/connection/server-check.ts";
import {
  type AgentInspection,
  type AgentSnapshot,
  createAgentInspection,
  isLive,
} from "../../shared/redis/inspection.ts";
import * as shared from "../../shared/redis/installation.ts";
import { redisNowMs } from "../../shared/redis/redis-time.ts";
import {
  readLimiters,
  readRefusedEntries,
  readUnackedReplies,
  readUnpushed,
  readWakes,
  readWorkers,
  type SurveyBounds,
  surveyKeys,
  type WakesSnapshot,
  type WorkerSnapshot,
} from "../../shared/redis/survey.ts";
import { openWakeQueueForReading, type ReadableWakeQueue } from "../../shared/redis/wake-queue.ts";
import type { Disposables } from "../local/disposables.ts";
import { OLD_REPLIES_MS } from "./checks.ts";
import {
  agentName,
  type BudgetUse,
  type Facts,
  OVERDUE_GRACE_MS,
  ownerName,
  type TroubledAgent,
  troublesOf,
} from "./facts.ts";
import { readWorkspaces } from "./workspaces.ts";

/** The doctor's access to an installation: one connection that fails at once, and the readers that use it. */
export interface Installation extends shared.Installation {
  prefix: string;
  workspaceRoot: string;
  clock: Clock;
  logger: Logger;
  queue: ReadableWakeQueue;
  inspection: AgentInspection;
}

type Examined = Pick<Installation, "prefix" | "workspaceRoot" | "clock" | "logger"> & { timing?: Timing };

/** Opens the installation at `target`; `disposables` closes it. Rejects with the connection's own error. */
export async function openToExamine(
  redisUrl: string,
  target: Examined,
  disposables: Disposables,
): Promise<Installation> {
  const redis = openRedis(redisUrl, "producer");
  disposables.add(() => closeRedis(redis));
  // `once` rejects with the connection's first error.
  if (redis.status !== "ready") await once(redis, "ready");
  const opened = shared.openInstallation(redis, target);
  const { keys, wakes, timing } = opened;
  disposables.add(() => wakes.stop());
  const queue = await openWakeQueueForReading(redis, keys);
  disposables.add(() => queue.close());
  return { ...target, ...opened, queue, inspection: createAgentInspection(redis, keys, wakes, timing) };
}

/** Options of an examination; tests use shorter times. */
export interface ExamineOptions extends Pick<Facts, "host" | "isProduction" | "bash"> {
  /** How late a sweeper's check may be, ms. */
  graceMs?: number;
  /** Time between the two snapshots of an agent that seems to be in trouble, ms. */
  secondCheckMs?: number;
  bounds?: SurveyBounds;
}

const SECOND_CHECK_MS = 1_500;
/** Number and interval (ms) of the reads of a wake beside free slots; a healthy worker takes it at once. */
const WAKE_READS = 6;
const WAKE_READ_MS = 500;
/** After this many crashes in a row without progress a run is alone in its worker. */
const CRASHES_BEFORE_ISOLATION = 2;
/** Number of refused intake entries that the report names. */
const MOST_REFUSED = 100;
/** Number of live agents whose budgets are read. */
const MOST_BUDGETED = 1_000;
const BATCH = 100;
const BOUNDS: SurveyBounds = { keys: 2_000_000, agents: 50_000 };

/** Measures all facts. Rejects with the connection's own error. */
export async function examine(installation: Installation, options: ExamineOptions): Promise<Facts> {
  const { redis, keys, prefix, clock, inspection, pause } = installation;
  const { graceMs = OVERDUE_GRACE_MS, bounds = BOUNDS, secondCheckMs: _, ...machine } = options;
  const servers = await Promise.all(serversOf(redis).map(checkServer));
  const askedAtMs = clock.now();
  const nowMs = await redisNowMs(redis);
  const hostNowMs = (askedAtMs + clock.now()) / 2;
  const survey = await surveyKeys(redis, keys, prefix, bounds);
  const { snapshots: agents, unreadable } = await inspection.inspect(survey.agents, graceMs);
  const [suspects, wakes] = await Promise.all([
    confirmTroubles(installation, agents, options),
    readWakesRepeatedly(installation, workersWithOneRun(agents)),
  ]);
  const unacked = await readUnackedReplies(redis, keys, survey.channels);
  const overdue = survey.strayMembers.filter(({ nextCheckMs }) => nextCheckMs + graceMs < nowMs);
  return {
    nowMs,
    hostNowMs,
    ...machine,
    servers,
    agents,
    suspects,
    unreadable,
    mistyped: survey.mistyped,
    strayMembers: overdue.map(({ member }) => member),
    channels: survey.channels.length,
    oldReplies: unacked.filter(({ oldestMs }) => oldestMs >= OLD_REPLIES_MS),
    unpushed: await readUnpushed(redis, keys, unacked),
    refusedEntries: await readRefusedEntries(redis, keys, MOST_REFUSED),
    ...wakes,
    pause: await pause.state(),
    limiters: await readLimiters(redis, keys),
    bounds,
    reached: survey.reached,
    workspaces: await readWorkspaces(installation, agents),
    budgets: await readBudgets(installation, agents),
  };
}

/** Returns the agents that have the same trouble after `secondCheckMs`. */
async function confirmTroubles(
  { clock, inspection }: Installation,
  snapshots: readonly AgentSnapshot[],
  { graceMs = OVERDUE_GRACE_MS, secondCheckMs = SECOND_CHECK_MS }: ExamineOptions,
): Promise<TroubledAgent[]> {
  const seen = new Map(snapshots.map((snapshot) => [snapshot.address.uid, troublesOf(snapshot, graceMs)]));
  const troubled = snapshots.map(({ address }) => address).filter(({ uid }) => seen.get(uid)?.length);
  if (troubled.length === 0) return [];
  await clock.sleep(secondCheckMs);
  const again = await inspection.inspect(troubled, graceMs);
  return again.snapshots.flatMap((snapshot) => {
    const before = seen.get(snapshot.address.uid);
    const troubles = troublesOf(snapshot, graceMs).filter((each) => before?.includes(each));
    return troubles.length > 0 ? [{ snapshot, troubles }] : [];
  });
}

/** Returns the ids of the workers that isolate a run and claim no other. */
function workersWithOneRun(snapshots: readonly AgentSnapshot[]): ReadonlySet<string> {
  const isolated = snapshots.flatMap(({ record }) =>
    record?.status === "running" && record.crashes >= CRASHES_BEFORE_ISOLATION ? [record.worker] : [],
  );
  return new Set(isolated);
}

async function readWakesRepeatedly(
  { redis, keys, queue, clock }: Installation,
  closed: ReadonlySet<string>,
): Promise<Pick<Facts, "workers" | "wakes" | "areWakesStuck">> {
  const read = async () => {
    const [workers, wakes] = await Promise.all([readWorkers(redis, keys), readWakes(queue)]);
    return { workers, wakes };
  };
  let seen = await read();
  const { next } = seen.wakes;
  for (let reads = 1; seemStuck(seen, closed, next) && reads < WAKE_READS; reads += 1) {
    await clock.sleep(WAKE_READ_MS);
    seen = await read();
  }
  return { ...seen, areWakesStuck: seemStuck(seen, closed, next) };
}

/** Returns true if `next` is still the first waiting wake although a worker has a free slot. */
function seemStuck(
  { workers, wakes }: { workers: readonly WorkerSnapshot[]; wakes: WakesSnapshot },
  closed: ReadonlySet<string>,
  next: string | undefined,
): boolean {
  const open = workers.filter(({ worker }) => !closed.has(worker.id));
  const slots = open.reduce((sum, { worker }) => sum + worker.concurrency, 0);
  const isWaiting = wakes.waiting > 0 && !wakes.isPaused && next !== undefined && wakes.next === next;
  return isWaiting && wakes.active < slots;
}

/** Reads the budgets of the first live agents, each once, with its most used cap. */
async function readBudgets(
  { redis, keys }: Installation,
  snapshots: readonly AgentSnapshot[],
): Promise<BudgetUse[]> {
  const live = snapshots.filter(isLive).slice(0, MOST_BUDGETED);
  const specs = await Promise.all(live.map(({ address }) => redis.hget(keys.agent(address).record, "spec")));
  const bounds = live.flatMap(({ address, record }, i) => {
    const { budgets } = AgentSpecJson.safeParse(specs[i]).data ?? {};
    const some = budgets ? budgetsOf(address, budgets) : [];
    return some.map((bound) => ({ bound, name: shownName(bound, address, record.agentId) }));
  });
  const uses = await inBatches(bounds, BATCH, async ({ bound, name }): Promise<BudgetUse> => {
    return { name, used: await readUsedShare(redis, keys, bound) };
  });
  // Of each name the last one in this order counts: the most used.
  return [...new Map(uses.sort((a, b) => a.used - b.used).map((use) => [use.name, use])).values()];
}

function shownName({ name }: BoundBudget, address: AgentAddress, agentId: string): string {
  const [of] = name.split("/", 1);
  if (of === "tenant") return `tenant ${address.tenant}`;
  return of === "parent" ? `parent ${ownerName(address)}` : `agent ${agentName(address, agentId)}`;
}
