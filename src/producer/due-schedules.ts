/**
 * Whether a job that came due is still wanted by the schedule that it is of.
 *
 * The parent's hash decides, not the queue: a removal takes away only what has not come due, and a scheduler may be left from a
 * call whose process died. A scheduler that has no schedule is removed here, one that is missing is begun.
 */
import type { ParentAddress } from "../shared/protocol/keys.ts";
import { ScheduleId } from "../shared/protocol/schedule.ts";
import { type Client, internalsOf } from "./client.ts";
import type { ParentCall } from "./parent-context.ts";
import { follow, jobOf, nameOf, readSchedule } from "./schedules.ts";

/** What the parent's schedules say of a job. */
export interface DueTask {
  /** Which schedule it is of; absent of a single one whose job does not say it. */
  scheduleId?: string;
  /** False: its schedule was removed, is paused, or comes due in another way by now. */
  isWanted: boolean;
  /** When the schedule comes due next, epoch ms; absent of a single one. */
  nextMs?: number;
}

const SINGLE = /^at-[0-9a-f]{32}$/;

/**
 * Asks for the job `jobId` of `parent`; `said`: the `schedule_id` in its data. Undefined: no schedule has put it there. Rejects with
 * `redis_unavailable`.
 */
export async function askSchedule(
  client: Client,
  parent: ParentAddress,
  jobId: string,
  said: string | undefined,
): Promise<DueTask | undefined> {
  const scheduleId = repeatedOf(parent, jobId);
  if (scheduleId === undefined && !SINGLE.test(jobId)) return undefined;
  const opened = await internalsOf(client).open();
  const named = scheduleId ?? said;
  return opened.call(async (redisCall) => {
    const call = { client: opened, parent, ...redisCall };
    const due = await (scheduleId === undefined
      ? askSingle(call, jobId, said)
      : askRepeated(call, scheduleId));
    return { ...due, ...(named !== undefined && { scheduleId: named }) };
  });
}

/** The `schedule_id` in the id that BullMQ gives an iteration: `repeat:`, the scheduler's name, `:`, epoch ms. */
function repeatedOf({ tenant, parentId }: ParentAddress, jobId: string): string | undefined {
  const head = `repeat:${nameOf({ tenant, parent_id: parentId, schedule_id: "" })}`;
  if (!jobId.startsWith(head)) return undefined;
  return ScheduleId.safeParse(jobId.slice(head.length).replace(/:\d+$/, "")).data;
}

async function askRepeated(call: ParentCall, schedule_id: string): Promise<DueTask> {
  const { read, parent, client } = call;
  const text = await read(() => client.redis.hget(client.keys.parent(parent).schedules, schedule_id));
  const stands = readSchedule(text);
  // Another version wrote it.
  if (text !== null && !stands) return { isWanted: true };
  const known = { tenant: parent.tenant, parent_id: parent.parentId, schedule_id };
  const isWanted = stands !== undefined && !stands.paused && stands.at === undefined;
  const nextMs = isWanted ? await read(() => client.intakeQueue.nextAt(nameOf(known))) : undefined;
  if (nextMs === undefined) await follow(call, known);
  return { isWanted, ...(nextMs !== undefined && { nextMs }) };
}

/**
 * The id of a single one is a digest of its schedule, which stands in the hash under `said`. A job that says none is compared with
 * all schedules, at most a hundred of up to 768 KB.
 */
async function askSingle(
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
    const stands = readSchedule(text);
    // Of what another version wrote it cannot be said that the job is not its.
    return !stands || (!stands.paused && jobOf(stands) === jobId);
  });
  return { isWanted };
}
