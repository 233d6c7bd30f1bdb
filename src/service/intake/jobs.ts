/**
 * Takes the jobs of the intake queue: each becomes a task whose reply is the job's return value; see `intake.ts`.
 *
 * 1. The reply is acked after it is stored in the job, not before: a process that dies in between loses nothing.
 * 2. A job that waits for room is retried for at most the maximum age of a message, counted from its first failure by Redis'
 *    clock, whatever its sender wrote; a job that waits for Redis is retried without a limit. A job with an unexpected error is
 *    retried for {@link UNEXPLAINED_MS}; then it fails.
 * 3. A job of a schedule that was removed or paused begins nothing, for any length of its wait.
 * 4. A job of a schedule waits for room until the next one comes due, which then replaces it, so no jobs pile up.
 * 5. At most {@link MOST_WAITS} jobs of one tenant wait for their replies in one process; the process begins no others meanwhile.
 */
import { z } from "zod";
import type { Client } from "../../producer/client.ts";
import { waitForTask } from "../../producer/detached-task.ts";
import { checkDueJob, type DueTask } from "../../producer/due-schedules.ts";
import type { Parent } from "../../producer/parent.ts";
import type { Spawned } from "../../producer/spawn.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import { withoutNulls } from "../../shared/protocol/content.ts";
import { IntakeInput } from "../../shared/protocol/intake.ts";
import { TIMING } from "../../shared/protocol/limits.ts";
import type { IntakeJob, JobEnd, JobStep, RepliedJob } from "../../shared/redis/intake-jobs.ts";
import { NOTHING_BEGUN } from "../../shared/redis/intake-queue.ts";
import { inputOfJob, scheduleIdIn, senderOf } from "./input.ts";
import { type IntakeQuota, ownerOf } from "./quota.ts";
import { handOver, tellRefusal } from "./spawn.ts";
import { hasNoRoom, redisTime } from "./stream.ts";

const Waiting = IntakeInput.pick({ tenant: true, parent_id: true, agent_id: true }).loose();
const SentToChannel = z.looseObject({ reply: z.literal("channel") });
const LATER_MS = 500;
const LONGEST_LATER_MS = 10_000;
const UNEXPLAINED_MS = 60_000;
const MOST_WAITS = 1_000;
/** Interval between attempts of a tenant's waiting jobs, ms: slots become free as replies arrive. */
const WAITS_APART_MS = 5;

/** See the module's header. */
export interface JobTaker {
  /** Handles a job; never rejects. */
  take(job: IntakeJob): Promise<JobStep>;
  /** Ends all waits: each job goes to another process. */
  leaveAll(): void;
}

/** Dependencies of a taker. `most`: maximum jobs of one tenant that wait for their replies, default {@link MOST_WAITS}. */
export interface JobTakerParts {
  client: Client;
  quota: IntakeQuota;
  logger: Logger;
  most?: number;
}

/** Creates a taker over `client`. */
export function createJobTaker(parts: JobTakerParts): JobTaker {
  const { client, most = MOST_WAITS } = parts;
  const leaving = new AbortController();
  const waits = createWaits(most);
  return {
    async take({ data, ...rest }) {
      // Foreign programs write null for what they leave out.
      const job = { ...rest, data: withoutNulls(data) };
      let due: DueTask | undefined;
      const failed = (error: unknown) =>
        leaving.signal.aborted ? ({ status: "left" } as const) : afterFailure(parts, job, error, due);
      try {
        due = await dueOf(client, job);
        if (due && !(due.isWanted && isFirst(job, due))) return { status: "done", value: NOTHING_BEGUN };
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

/** Creates a counter of each tenant's jobs that wait for their replies. */
function createWaits(most: number) {
  const ofTenants = new Map<string, number>();
  const count = (tenant: string, change: number) => {
    const now = (ofTenants.get(tenant) ?? 0) + change;
    if (now > 0) ofTenants.set(tenant, now);
    else ofTenants.delete(tenant);
    return now;
  };
  return {
    /** Throws `quota_exceeded` if `most` jobs of the tenant wait. */
    requireRoom(tenant: string): void {
      if (count(tenant, 0) < most) return;
      throw new SubagentError(
        "quota_exceeded",
        `In each worker process ${most} jobs of a tenant wait for their replies, the most allowed: start more workers, or add jobs with reply "channel".`,
        { max_waiting: most },
      );
    },
    /** Counts a job until its reply has arrived. */
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

/** Returns the end of a job that failed with `error`: a retry later, or a refusal. */
async function afterFailure(
  { client, quota, logger }: JobTakerParts,
  job: IntakeJob,
  error: unknown,
  due: DueTask | undefined,
): Promise<JobEnd> {
  const tell = () =>
    logger.warn({ job: job.id, problem: messageOf(error) }, "An intake job was not handed over");
  const nowMs = await redisTime(client).catch(() => undefined);
  // Without Redis nothing is refused, because nothing could be counted or told.
  if (nowMs === undefined) {
    tell();
    return { status: "later", delayMs: LATER_MS };
  }
  const { since_ms = nowMs, ...more } = job.wait ?? {};
  const wait = { ...more, since_ms: Math.min(since_ms, nowMs) };
  const waitedMs = nowMs - wait.since_ms;
  const delayMs = Math.min(LONGEST_LATER_MS, Math.max(LATER_MS, waitedMs / 10));
  const mayComeAgain = mayTryAgain(error, waitedMs);
  // A scheduled job is retried until the next one comes due, outside of the lines: a parent has at most a hundred schedules.
  if (mayComeAgain && hasNoRoom(error) && due)
    return {
      status: "later",
      delayMs,
      wait: { ...wait, ...(due.nextMs !== undefined && { until_ms: due.nextMs }) },
    };
  if (mayComeAgain && hasNoRoom(error)) {
    const apartMs = isOfTenant(error) ? WAITS_APART_MS : undefined;
    return { status: "later", delayMs: quota.delayMs(lineOf(job, error), waitedMs, apartMs), wait };
  }
  tell();
  const again: JobEnd = { status: "later", delayMs, wait };
  return mayComeAgain ? again : refuse(client, job, explained(error), due).catch(() => again);
}

/** Returns the line in which a job without room waits: that of its tenant, its agent or its parent. */
function lineOf({ data }: IntakeJob, error: SubagentError): string {
  const { tenant, parent_id: parentId, agent_id } = Waiting.parse(data);
  return isOfTenant(error) ? tenant : ownerOf({ tenant, parentId }, agent_id);
}

function isOfTenant({ details }: SubagentError): boolean {
  return "max_waiting" in details;
}

/** Checks a job with its schedule; undefined: no schedule added it. */
async function dueOf(client: Client, { id, data }: IntakeJob): Promise<DueTask | undefined> {
  const sender = senderOf(data);
  return sender && checkDueJob(client, sender.parent, id, scheduleIdIn(data));
}

/** Returns whether no later job of its schedule has come due since it found no room, whatever any host's clock says. */
function isFirst({ wait }: IntakeJob, { nextMs }: DueTask): boolean {
  return nextMs === undefined || wait?.until_ms === undefined || nextMs <= wait.until_ms;
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
  const request = inputOfJob(job, isScheduled);
  const isAwaited = request.reply === "return";
  const requireRoom = () => {
    if (isAwaited) waits.requireRoom(request.tenant);
  };
  const { receipt, task, parent } = await handOver(client, request, job.id, quota, requireRoom);
  return { receipt, awaited: isAwaited && task && { tenant: request.tenant, task, parent } };
}

async function waitForReply(
  { task, parent }: { task: Spawned; parent: Parent },
  leaving: AbortSignal,
): Promise<RepliedJob> {
  const { reply, ack } = await waitForTask(parent, task, leaving);
  return { status: "replied", value: reply, taken: () => void ack() };
}

/**
 * Ends the job as refused; if its reply goes to the channel, also writes the refusal there: one of a schedule that repeats once
 * a day for the same reason.
 */
async function refuse(
  client: Client,
  { id, data }: IntakeJob,
  error: SubagentError,
  { scheduleId, day }: Partial<DueTask> = {},
): Promise<JobEnd> {
  const sender = SentToChannel.safeParse(data).success ? senderOf(data) : undefined;
  if (sender) {
    const told = scheduleId === undefined ? error : dueError(scheduleId, error);
    await tellRefusal(client, sender, day === undefined ? id : `${day} ${told.message}`, told);
  }
  return { status: "refused", error };
}

/** Returns the error with the name of the due schedule in its message. */
function dueError(scheduleId: string, error: SubagentError): SubagentError {
  return new SubagentError(
    error.code,
    `The schedule ${scheduleId} came due: ${error.message}`,
    error.details,
    error,
  );
}
