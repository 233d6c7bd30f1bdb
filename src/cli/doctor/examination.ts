/**
 * Looks at a live installation, which goes on meanwhile. Owns no state, changes nothing.
 *
 * 1. What is found at an agent stood there at two looks: a moment between two writes is no trouble.
 * 2. The keys of one slot are read at one moment; what lies in several slots is read in the order in which a healthy
 *    system writes it the other way round.
 * 3. The work is bounded: pages of a scan, batches of agents, and a stop after so many of them.
 */
import type { AgentAddress } from "../../shared/protocol/keys.ts";
import type { AgentSight } from "../../shared/redis/agent-sight.ts";
import {
  readOldReplies,
  readWakes,
  readWorkers,
  redisNowMs,
  type WakesSight,
  type WorkerSight,
} from "../../shared/redis/installation-sight.ts";
import { type SurveyBounds, surveyKeys } from "../../shared/redis/key-survey.ts";
import { createPause } from "../../shared/redis/pause.ts";
import { createProviderGate } from "../../shared/redis/provider-gate.ts";
import { checkServer } from "../../shared/redis/server-check.ts";
import { serversOf } from "../../shared/redis/servers.ts";
import type { Facts, SuspectAgent } from "./facts.ts";
import type { Installation } from "./installation.ts";
import { checksOf, OVERDUE_GRACE_MS } from "./judge-agents.ts";
import { OLD_REPLIES_MS } from "./judge-installation.ts";

/** How an examination goes about it; tests are less patient. */
export interface ExaminationOptions {
  host: string;
  isProduction: boolean;
  /** A look may be so late. */
  graceMs?: number;
  /** Between the two looks at an agent that seems to be in trouble. */
  secondLookMs?: number;
  bounds?: SurveyBounds;
}

const SECOND_LOOK_MS = 1_500;
/** A wake that waits beside free places is looked at this often, a moment apart: the next one is taken at once. */
const WAKE_LOOKS = 6;
const WAKE_LOOK_MS = 500;
/** A run that so many workers in a row died with gets a worker to itself. */
const SUSPECT_DEATHS = 2;
const BOUNDS: SurveyBounds = { keys: 2_000_000, agents: 50_000 };

/** Examines everything that stands in Redis. Rejects with the connection's own error. */
export async function examine(installation: Installation, options: ExaminationOptions): Promise<Facts> {
  const { redis, keys, prefix, clock, inspection } = installation;
  const { host, isProduction, graceMs = OVERDUE_GRACE_MS, bounds = BOUNDS } = options;
  const servers = await Promise.all(serversOf(redis).map(checkServer));
  const askedAtMs = clock.now();
  const nowMs = await redisNowMs(redis);
  const hostNowMs = (askedAtMs + clock.now()) / 2;
  const survey = await surveyKeys(redis, keys, prefix, bounds);
  const { sights, unreadable } = await inspection.inspect(survey.agents, graceMs);
  const [suspects, wakes] = await Promise.all([
    lookAgain(installation, sights, options),
    lookAtWakes(installation, quarantining(sights)),
  ]);
  return {
    nowMs,
    hostNowMs,
    host,
    isProduction,
    servers,
    agents: sights,
    suspects,
    unreadable,
    strangers: survey.strangers
      .filter(({ nextLookMs }) => nextLookMs + graceMs < nowMs)
      .map(({ member }) => member),
    channels: survey.channels.length,
    oldReplies: await readOldReplies(redis, keys, survey.channels, OLD_REPLIES_MS),
    ...wakes,
    pause: await createPause(redis, keys).state(),
    gates: await createProviderGate(redis, keys).list(),
    bounds,
    reached: survey.reached,
  };
}

/** The agents that are in the same trouble a moment later. */
async function lookAgain(
  { clock, inspection }: Installation,
  sights: readonly AgentSight[],
  { graceMs = OVERDUE_GRACE_MS, secondLookMs = SECOND_LOOK_MS }: ExaminationOptions,
): Promise<SuspectAgent[]> {
  const first = new Map<string, SuspectAgent>();
  for (const sight of sights) {
    const checks = checksOf(sight, graceMs);
    if (checks.length > 0) first.set(sight.address.uid, { sight, checks });
  }
  if (first.size === 0) return [];
  await clock.sleep(secondLookMs);
  const addresses: AgentAddress[] = [...first.values()].map(({ sight }) => sight.address);
  const again = await inspection.inspect(addresses, graceMs);
  return again.sights.flatMap((sight) => {
    const before = first.get(sight.address.uid)?.checks ?? [];
    const checks = checksOf(sight, graceMs).filter((check) => before.includes(check));
    return checks.length > 0 ? [{ sight, checks }] : [];
  });
}

/** Ids of workers that have a suspect run to themselves and take nothing else meanwhile. */
function quarantining(sights: readonly AgentSight[]): ReadonlySet<string> {
  const suspects = sights.flatMap(({ record }) =>
    record?.status === "running" && record.barrenDeaths >= SUSPECT_DEATHS ? [record.worker] : [],
  );
  return new Set(suspects);
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
  const places = workers.reduce(
    (sum, { worker }) => sum + (closed.has(worker.id) ? 0 : worker.concurrency),
    0,
  );
  return (
    wakes.waiting > 0 && wakes.active < places && !wakes.isPaused && next !== undefined && wakes.next === next
  );
}
