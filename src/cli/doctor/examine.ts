/**
 * Looks at a live installation, which goes on meanwhile. Owns one connection, changes nothing.
 *
 * 1. A trouble of an agent was there at two looks: a moment between two writes is no trouble.
 * 2. The keys of one slot are read at one moment; keys of several slots are read in the reverse of the order in which a
 *    healthy system writes them.
 *
 * The work is bounded: pages of a scan, batches of agents, and a stop after so many of them.
 */
import { once } from "node:events";
import type { Clock } from "../../shared/clock.ts";
import type { Logger } from "../../shared/logger.ts";
import type { Timing } from "../../shared/protocol/limits.ts";
import { closeRedis, openRedis, serversOf } from "../../shared/redis/connection/connection.ts";
import { checkServer } from "../../shared/redis/connection/server-check.ts";
import {
  type AgentInspection,
  type AgentSight,
  createAgentInspection,
} from "../../shared/redis/inspection.ts";
import * as shared from "../../shared/redis/installation.ts";
import { createProviderLimiter } from "../../shared/redis/provider-limiter.ts";
import { redisNowMs } from "../../shared/redis/redis-time.ts";
import {
  readOldReplies,
  readWakes,
  readWorkers,
  type SurveyBounds,
  surveyKeys,
  type WakesSight,
  type WorkerSight,
} from "../../shared/redis/survey.ts";
import { openWakeQueueForReading, type ReadableWakeQueue } from "../../shared/redis/wake-queue-view.ts";
import type { Closing } from "../local/disposables.ts";
import { OVERDUE_GRACE_MS, troublesOf } from "./agents.ts";
import { readBudgets } from "./budget.ts";
import { OLD_REPLIES_MS } from "./checks.ts";
import type { Facts, SuspectAgent } from "./facts.ts";
import { readWorkspaces } from "./workspaces.ts";

/** What the doctor has open of an installation: one connection that fails at once, and what works over it. */
export interface Installation extends shared.Installation {
  prefix: string;
  workspaceRoot: string;
  clock: Clock;
  logger: Logger;
  queue: ReadableWakeQueue;
  inspection: AgentInspection;
}

type Place = Pick<Installation, "prefix" | "workspaceRoot" | "clock" | "logger"> & { timing?: Timing };

/** Opens the installation at `place`; ends with `closing`. Rejects with the connection's own error. */
export async function openForExamination(
  redisUrl: string,
  place: Place,
  closing: Closing,
): Promise<Installation> {
  const redis = openRedis(redisUrl, "producer");
  closing.add(() => closeRedis(redis));
  // Rejects with the first error.
  if (redis.status !== "ready") await once(redis, "ready");
  const opened = shared.openInstallation(redis, place);
  const { keys, wakes, timing } = opened;
  closing.add(() => wakes.stop());
  const queue = openWakeQueueForReading(redis, keys);
  closing.add(() => queue.close());
  return { ...place, ...opened, queue, inspection: createAgentInspection(redis, keys, wakes, timing) };
}

/** How an examination goes about it; tests are less patient. */
export interface ExaminationOptions {
  host: string;
  isProduction: boolean;
  /** Why a worker of this machine offers no bash. */
  bash?: string | undefined;
  /** How late a check may be, ms. */
  graceMs?: number;
  /** Time between the two looks at an agent that seems to be in trouble, ms. */
  secondLookMs?: number;
  bounds?: SurveyBounds;
}

const SECOND_LOOK_MS = 1_500;
/** How often a wake beside free places is looked at, and how far apart: a healthy worker takes it at once. */
const WAKE_LOOKS = 6;
const WAKE_LOOK_MS = 500;
/** After so many crashes in a row without progress a run is alone in its worker. */
const CRASHES_BEFORE_ISOLATION = 2;
const BOUNDS: SurveyBounds = { keys: 2_000_000, agents: 50_000 };

/** Measures everything. Rejects with the connection's own error. */
export async function examine(installation: Installation, options: ExaminationOptions): Promise<Facts> {
  const { redis, keys, prefix, clock, inspection, pause } = installation;
  const { host, isProduction, bash, graceMs = OVERDUE_GRACE_MS, bounds = BOUNDS } = options;
  const servers = await Promise.all(serversOf(redis).map(checkServer));
  const askedAtMs = clock.now();
  const nowMs = await redisNowMs(redis);
  const hostNowMs = (askedAtMs + clock.now()) / 2;
  const survey = await surveyKeys(redis, keys, prefix, bounds);
  const { sights: agents, unreadable } = await inspection.inspect(survey.agents, graceMs);
  const [suspects, wakes] = await Promise.all([
    lookAgain(installation, agents, options),
    lookAtWakes(installation, workersWithOneRun(agents)),
  ]);
  const overdue = survey.strangers.filter(({ nextLookMs }) => nextLookMs + graceMs < nowMs);
  return {
    nowMs,
    hostNowMs,
    host,
    isProduction,
    bash,
    servers,
    agents,
    suspects,
    unreadable,
    misfits: survey.misfits,
    strangers: overdue.map(({ member }) => member),
    channels: survey.channels.length,
    oldReplies: await readOldReplies(redis, keys, survey.channels, OLD_REPLIES_MS),
    ...wakes,
    pause: await pause.state(),
    limiters: await createProviderLimiter(redis, keys).list(),
    bounds,
    reached: survey.reached,
    workspaces: await readWorkspaces(installation, agents),
    budgets: await readBudgets(installation, agents),
  };
}

/** The agents that are in the same trouble a moment later. */
async function lookAgain(
  { clock, inspection }: Installation,
  sights: readonly AgentSight[],
  { graceMs = OVERDUE_GRACE_MS, secondLookMs = SECOND_LOOK_MS }: ExaminationOptions,
): Promise<SuspectAgent[]> {
  const first = sights
    .map((sight) => ({ sight, troubles: troublesOf(sight, graceMs) }))
    .filter(({ troubles }) => troubles.length > 0);
  if (first.length === 0) return [];
  const before = new Map(first.map(({ sight, troubles }) => [sight.address.uid, troubles]));
  await clock.sleep(secondLookMs);
  const addresses = first.map(({ sight }) => sight.address);
  const again = await inspection.inspect(addresses, graceMs);
  return again.sights
    .map((sight) => {
      const seen = before.get(sight.address.uid) ?? [];
      return { sight, troubles: troublesOf(sight, graceMs).filter((trouble) => seen.includes(trouble)) };
    })
    .filter(({ troubles }) => troubles.length > 0);
}

/** Ids of the workers that isolate a run and take nothing else meanwhile. */
function workersWithOneRun(sights: readonly AgentSight[]): ReadonlySet<string> {
  const isolated = sights.flatMap(({ record }) =>
    record?.status === "running" && record.crashes >= CRASHES_BEFORE_ISOLATION ? [record.worker] : [],
  );
  return new Set(isolated);
}

async function lookAtWakes(
  { redis, keys, queue, clock }: Installation,
  closed: ReadonlySet<string>,
): Promise<Pick<Facts, "workers" | "wakes" | "areWakesStuck">> {
  const look = async () => {
    const [workers, wakes] = await Promise.all([readWorkers(redis, keys), readWakes(queue)]);
    return { workers, wakes };
  };
  const first = await look();
  let areWakesStuck = seemStuck(first, closed, first.wakes.next);
  let last = first;
  for (let looks = 1; areWakesStuck && looks < WAKE_LOOKS; looks += 1) {
    await clock.sleep(WAKE_LOOK_MS);
    last = await look();
    areWakesStuck = seemStuck(last, closed, first.wakes.next);
  }
  return { ...last, areWakesStuck };
}

/** Whether `next` is still the next wake to be taken though there is a free place for it. */
function seemStuck(
  { workers, wakes }: { workers: readonly WorkerSight[]; wakes: WakesSight },
  closed: ReadonlySet<string>,
  next: string | undefined,
): boolean {
  const open = workers.filter(({ worker }) => !closed.has(worker.id));
  const places = open.reduce((sum, { worker }) => sum + worker.concurrency, 0);
  const isWaiting = wakes.waiting > 0 && !wakes.isPaused && next !== undefined && wakes.next === next;
  return isWaiting && wakes.active < places;
}
