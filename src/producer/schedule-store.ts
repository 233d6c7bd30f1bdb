/**
 * The hash of a parent's schedules, the source of truth for them. Its neighbour `schedules.ts` makes the queue follow it.
 *
 * 1. A call that changes a schedule, or removes one that has run, writes only over the text that it has read. If another call
 *    came first, it reads again: so no change is undone, and no new schedule is removed in place of the one it has replaced.
 * 2. If two calls store the same schedule, the later one counts.
 */
import { SubagentError } from "../shared/errors.ts";
import { addressOfParent } from "../shared/protocol/keys.ts";
import { Schedule, ScheduleId } from "../shared/protocol/schedule.ts";
import { quoted } from "../shared/protocol/text.ts";
import type { VerbAnswer } from "../shared/redis/scripts.ts";
import type { ParentCall } from "./parent-context.ts";

/** A schedule, and the text from which it was read. */
export interface StoredSchedule {
  text: string;
  schedule: Schedule;
}

/** Reads a schedule; undefined if there is none that this version can read. */
export async function storedSchedule(
  { read, parent, client: { redis, keys } }: ParentCall,
  scheduleId: string,
): Promise<StoredSchedule | undefined> {
  const text = await read(() => redis.hget(keys.parent(parent).schedules, scheduleId));
  const schedule = readSchedule(text);
  return text === null || !schedule ? undefined : { text, schedule };
}

/** Reads a schedule that must exist. Rejects with `unknown_schedule`. */
export async function findSchedule(call: ParentCall, scheduleId: unknown): Promise<StoredSchedule> {
  const id = ScheduleId.safeParse(scheduleId);
  const found = id.success ? await storedSchedule(call, id.data) : undefined;
  if (found) return found;
  throw unknownSchedule(scheduleId);
}

/** Writes a schedule; returns the verb's status. `seen`: only in place of this text. */
export async function storeSchedule(
  { write, parent, client }: ParentCall,
  made: Schedule,
  seen?: string,
): Promise<VerbAnswer<"schedule">["status"]> {
  const { schedule_id } = made;
  const answer = await write({ what: "the schedule", key: { schedule_id } }, () =>
    client.store.schedule(addressOfParent(parent), { schedule_id, seen, json: JSON.stringify(made) }),
  );
  return answer.status;
}

/** Rejects with `redis_unavailable` if Redis has no memory to change `stored`; it changes nothing itself. */
export async function requireMemoryFor(
  { read, parent, client }: ParentCall,
  { text, schedule: { schedule_id } }: StoredSchedule,
): Promise<void> {
  await read(() => client.store.schedule(addressOfParent(parent), { schedule_id, seen: text, json: text }));
}

/** Removes a schedule; false if `seen` is given and another text is stored by now. */
export async function forgetSchedule(
  { write, parent, client }: ParentCall,
  { schedule_id }: Pick<Schedule, "schedule_id">,
  seen?: string,
): Promise<boolean> {
  const repeat = { what: "the removal", key: { schedule_id }, over: "unknown_schedule" } as const;
  const answer = await write(repeat, () =>
    client.store.schedule(addressOfParent(parent), { schedule_id, seen }),
  );
  return answer.status === "removed";
}

/** Parses a stored schedule; undefined if there is none that this version can read. */
export function readSchedule(text: string | null): Schedule | undefined {
  try {
    return Schedule.safeParse(JSON.parse(text ?? "")).data;
  } catch {
    return undefined;
  }
}

/** Returns the error for a schedule that does not exist. */
export function unknownSchedule(scheduleId: unknown): SubagentError {
  const shown = quoted(String(scheduleId));
  return new SubagentError(
    "unknown_schedule",
    `This parent has no schedule ${shown}: subagent-queue schedule without a name, or schedules(), lists them.`,
  );
}
