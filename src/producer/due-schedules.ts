/**
 * The check of a due job: whether its schedule is still in force.
 *
 * The parent's hash decides, not the queue: a removal does not reach jobs that are already due, and a dead process may have
 * left a scheduler behind. The check removes a scheduler without a schedule and adds a missing one.
 */
import type { ParentAddress } from "../shared/protocol/keys.ts";
import { ScheduleId } from "../shared/protocol/schedule.ts";
import { DAY_MS } from "../shared/protocol/usage.ts";
import { type Client, internalsOf } from "./client.ts";
import type { ParentCall } from "./parent-context.ts";
import { readSchedule } from "./schedule-store.ts";
import { schedulerNameOf, singleJobId, syncQueue } from "./schedules.ts";

/** The result of the check of a due job. */
export interface DueTask {
  /** The schedule of the job; undefined for a job of a schedule with `at` whose data does not name it. */
  scheduleId?: string;
  /** False: its schedule was removed, is paused, has other times now, or was written after the job came due. */
  isWanted: boolean;
  /** The next time at which the schedule comes due, epoch ms; undefined for a schedule with `at`. */
  nextMs?: number;
  /**
   * Of a schedule that repeats: the same for all its jobs that come due on one day (UTC), until it is written again. A refusal
   * is told once in it for the same reason.
   */
  day?: string;
}

const SINGLE = /^at-[0-9a-f]{32}$/;

/**
 * Checks the job `jobId` of `parent`; `said`: the `schedule_id` in its data. Undefined: no schedule added the job. Rejects
 * with `redis_unavailable`.
 */
export async function checkDueJob(
  client: Client,
  parent: ParentAddress,
  jobId: string,
  said: string | undefined,
): Promise<DueTask | undefined> {
  const repeated = repeatedOf(parent, jobId);
  if (repeated === undefined && !SINGLE.test(jobId)) return undefined;
  const opened = await internalsOf(client).open();
  const named = repeated?.scheduleId ?? said;
  return opened.call(async (redisCall) => {
    const call = { client: opened, parent, ...redisCall };
    const due = await (repeated === undefined
      ? checkSingle(call, jobId, said)
      : checkRepeated(call, repeated));
    return { ...due, ...(named !== undefined && { scheduleId: named }) };
  });
}

/** A time at which a schedule with `cron` or `every_ms` came due, epoch ms. */
interface RepeatedDue {
  scheduleId: string;
  dueMs: number;
}

/** Reads the job id of a BullMQ scheduler: `repeat:`, the scheduler's name, `:`, epoch ms. */
function repeatedOf({ tenant, parentId }: ParentAddress, jobId: string): RepeatedDue | undefined {
  const head = `repeat:${schedulerNameOf({ tenant, parent_id: parentId, schedule_id: "" })}`;
  if (!jobId.startsWith(head)) return undefined;
  const [, id, dueMs] = /^(.*):(\d+)$/.exec(jobId.slice(head.length)) ?? [];
  const scheduleId = ScheduleId.safeParse(id).data;
  return scheduleId === undefined ? undefined : { scheduleId, dueMs: Number(dueMs) };
}

/** Checks a job of a schedule that repeats: one that came due before the schedule was written is not wanted any more. */
async function checkRepeated(call: ParentCall, { scheduleId, dueMs }: RepeatedDue): Promise<DueTask> {
  const { read, parent, client } = call;
  const text = await read(() => client.redis.hget(client.keys.parent(parent).schedules, scheduleId));
  const stored = readSchedule(text);
  // Another version wrote the schedule: this one cannot refuse its job.
  if (text !== null && !stored) return { isWanted: true };
  const known = { tenant: parent.tenant, parent_id: parent.parentId, schedule_id: scheduleId };
  const isInForce = stored !== undefined && !stored.paused && stored.at === undefined;
  const nextMs = isInForce ? await read(() => client.intakeQueue.nextAt(schedulerNameOf(known))) : undefined;
  if (nextMs === undefined) await syncQueue(call, known);
  const written = stored?.written_at ?? stored?.created_at ?? "";
  const isWanted = isInForce && !(dueMs < Date.parse(written));
  const day = `${schedulerNameOf(known)} ${written} ${Math.floor(dueMs / DAY_MS)}`;
  return { isWanted, day, ...(nextMs !== undefined && { nextMs }) };
}

/**
 * Checks the job of a schedule with `at`. The job id is a digest of the schedule, which is in the hash under `said`. A job
 * without `said` is compared with all schedules, at most a hundred of up to 768 KB.
 */
async function checkSingle(
  { read, parent, client: { redis, keys } }: ParentCall,
  jobId: string,
  said: string | undefined,
): Promise<DueTask> {
  const { schedules } = keys.parent(parent);
  const texts = await read<(string | null)[]>(() =>
    said === undefined ? redis.hvals(schedules) : redis.hmget(schedules, said),
  );
  const isWanted = texts.some((text) => {
    if (text === null) return false;
    const stored = readSchedule(text);
    // The job may belong to a schedule that another version wrote and this one cannot read.
    return !stored || (!stored.paused && singleJobId(stored) === jobId);
  });
  return { isWanted };
}
