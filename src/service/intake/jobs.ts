/**
 * Takes the jobs of the intake queue: each becomes a task whose reply is the job's return value; see `intake.ts`.
 *
 * 1. The reply is acked when it stands in the job, not before: a process that dies in between loses nothing.
 * 2. A job that waits for room, or for Redis, is tried again later, as long as a message may wait for its answer. An error that
 *    nothing explains is met for {@link UNEXPLAINED_MS}; then the job fails.
 * 3. A job of a schedule that was removed or paused begins nothing, however long it has waited.
 * 4. A job of a schedule waits for room until the next one comes due, which then stands for it: nothing piles up.
 * 5. At most {@link MOST_WAITS} jobs of one tenant wait for their replies in one process; its others are not begun meanwhile.
 */
import { setMaxListeners } from "node:events";
import { z } from "zod";
import type { Client } from "../../producer/client.ts";
import { waitForTask } from "../../producer/detached-task.ts";
import { askSchedule, type DueTask } from "../../producer/due-schedules.ts";
import type { Parent } from "../../producer/parent.ts";
import type { Spawned } from "../../producer/spawn.ts";
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import { IntakeInput } from "../../shared/protocol/intake.ts";
import { TIMING } from "../../shared/protocol/limits.ts";
import type { IntakeJob, JobEnd, JobStep, RepliedJob } from "../../shared/redis/intake-jobs.ts";
import { inputOfJob, scheduleIdIn, senderOf } from "./input.ts";
import { type IntakeQuota, ownerOf } from "./quota.ts";
import { handOver, tellRefusal } from "./spawn.ts";
import { hasNoRoom } from "./stream.ts";

const Waiting = IntakeInput.pick({ tenant: true, parent_id: true, agent_id: true }).loose();
const SentToChannel = z.looseObject({ reply: z.literal("channel") });
const LATER_MS = 500;
const LONGEST_LATER_MS = 10_000;
const UNEXPLAINED_MS = 60_000;
const MOST_WAITS = 1_000;
/** So many a second of a tenant's jobs without a place are tried again: places become free as their replies come. */
const WAITS_APART_MS = 5;
/** The return value of a job whose schedule did not want it any more. */
const NOTHING_BEGUN = { begun: false };

/** See the module's header. */
export interface JobTaker {
  /** What becomes of a job; never rejects. */
  take(job: IntakeJob): Promise<JobStep>;
  /** Ends all waiting: each job goes to another process. */
  leaveAll(): void;
}

/** What a taker works with. `most`: how many jobs of one tenant may wait for their replies, default {@link MOST_WAITS}. */
export interface JobTakerParts {
  client: Client;
  quota: IntakeQuota;
  clock: Clock;
  logger: Logger;
  most?: number;
}

/** A taker over `client`. */
export function createJobTaker(parts: JobTakerParts): JobTaker {
  const { client, clock, most = MOST_WAITS } = parts;
  const leaving = new AbortController();
  setMaxListeners(0, leaving.signal);
  const waits = createWaits(most);
  return {
    async take(job) {
      let due: DueTask | undefined;
      const failed = (error: unknown) =>
        leaving.signal.aborted ? ({ status: "left" } as const) : afterFailure(parts, job, error, due);
      try {
        due = await dueOf(client, job);
        if (due && !(due.isWanted && isFirst(job, clock))) return { status: "done", value: NOTHING_BEGUN };
        const { receipt, awaited } = await begin(parts, job, due !== undefined, waits);
        if (!awaited) return { status: "done", value: receipt };
        const reply = waits.hold(awaited.tenant, waitForReply(awaited, leaving.signal));
        return { status: "waits", end: reply.catch(failed) };
      } catch (error) {
        return failed(error);
      }
    },
    leaveAll: () => leaving.abort(),
  };
}

/** Counts the jobs of each tenant that wait for their replies. */
function createWaits(most: number) {
  const ofTenants = new Map<string, number>();
  const count = (tenant: string, change: number) => {
    const now = (ofTenants.get(tenant) ?? 0) + change;
    if (now > 0) ofTenants.set(tenant, now);
    else ofTenants.delete(tenant);
    return now;
  };
  return {
    /** Throws `quota_exceeded` where as many wait as may. */
    requireRoom(tenant: string): void {
      if (count(tenant, 0) < most) return;
      throw new SubagentError(
        "quota_exceeded",
        `In each worker process ${most} jobs of a tenant wait for their replies, the most allowed: start more workers, or add jobs with reply "channel".`,
        { max_waiting: most },
      );
    },
    /** Counts a job until its reply is there. */
    async hold<T>(tenant: string, reply: Promise<T>): Promise<T> {
      count(tenant, 1);
      try {
        return await reply;
      } finally {
        count(tenant, -1);
      }
    },
  };
}

/** What becomes of a job that met `error`. */
async function afterFailure(
  { client, quota, clock, logger }: JobTakerParts,
  job: IntakeJob,
  error: unknown,
  due: DueTask | undefined,
): Promise<JobEnd> {
  const waitedMs = clock.now() - job.dueAtMs;
  const delayMs = Math.min(LONGEST_LATER_MS, Math.max(LATER_MS, waitedMs / 10));
  const mayComeAgain = mayTryAgain(error, waitedMs);
  // A job of a schedule has until the next one to be tried in; a parent has a hundred schedules at most.
  if (mayComeAgain && hasNoRoom(error) && due) return { status: "later", delayMs, untilMs: due.nextMs };
  if (mayComeAgain && hasNoRoom(error)) {
    const apartMs = isOfTenant(error) ? WAITS_APART_MS : undefined;
    return { status: "later", delayMs: quota.delayMs(lineOf(job, error), waitedMs, apartMs) };
  }
  logger.warn({ job: job.id, problem: messageOf(error) }, "An intake job was not handed over");
  if (mayComeAgain) return { status: "later", delayMs };
  return refuse(client, job, explained(error), due?.scheduleId).catch(() => ({ status: "later", delayMs }));
}

/** Whose line a job without room waits in: that of its tenant, its agent or its parent. */
function lineOf({ data }: IntakeJob, error: SubagentError): string {
  const { tenant, parent_id: parentId, agent_id } = Waiting.parse(data);
  return isOfTenant(error) ? tenant : ownerOf({ tenant, parentId }, agent_id);
}

function isOfTenant({ details }: SubagentError): boolean {
  return "max_waiting" in details;
}

/** What the parent's schedules say of a job; undefined: it is of none. */
async function dueOf(client: Client, { id, data }: IntakeJob): Promise<DueTask | undefined> {
  const sender = senderOf(data);
  return sender && askSchedule(client, sender.parent, id, scheduleIdIn(data));
}

/** Whether no later job of its schedule has come due since it found no room. */
function isFirst({ untilMs = Number.POSITIVE_INFINITY }: IntakeJob, clock: Clock): boolean {
  return clock.now() < untilMs;
}

function mayTryAgain(error: unknown, waitedMs: number): boolean {
  if (!(error instanceof SubagentError)) return waitedMs < UNEXPLAINED_MS;
  return error.retryable && !(hasNoRoom(error) && waitedMs > TIMING.maxAgeMs);
}

function explained(error: unknown): SubagentError {
  if (error instanceof SubagentError) return error;
  return new SubagentError("protocol_violation", messageOf(error), {}, error);
}

async function begin(
  { client, quota }: JobTakerParts,
  job: IntakeJob,
  isScheduled: boolean,
  waits: ReturnType<typeof createWaits>,
) {
  const wish = inputOfJob(job, isScheduled);
  const isAwaited = wish.reply === "return";
  const requirePlace = () => {
    if (isAwaited) waits.requireRoom(wish.tenant);
  };
  const { receipt, task, parent } = await handOver(client, wish, job.id, quota, requirePlace);
  return { receipt, awaited: isAwaited && task && { tenant: wish.tenant, task, parent } };
}

async function waitForReply(
  { task, parent }: { task: Spawned; parent: Parent },
  leaving: AbortSignal,
): Promise<RepliedJob> {
  const { reply, ack } = await waitForTask(parent, task, leaving);
  return { status: "replied", value: reply, taken: () => void ack() };
}

/** The job fails; a parent that waits at its channel is told there, too. */
async function refuse(
  client: Client,
  { id, data }: IntakeJob,
  error: SubagentError,
  scheduleId: string | undefined,
): Promise<JobEnd> {
  const sender = SentToChannel.safeParse(data).success ? senderOf(data) : undefined;
  if (sender)
    await tellRefusal(client, sender, id, scheduleId === undefined ? error : dueError(scheduleId, error));
  return { status: "refused", error };
}

/** The same error with the name of the schedule that came due. */
function dueError(scheduleId: string, error: SubagentError): SubagentError {
  return new SubagentError(
    error.code,
    `The schedule ${scheduleId} came due: ${error.message}`,
    error.details,
    error,
  );
}
