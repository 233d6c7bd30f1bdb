/**
 * The schedules of a parent: tasks that come due at given times. BullMQ's job schedulers add them to the intake queue, where
 * a worker process begins them; their replies arrive in the parent's channel.
 *
 * 1. If a schedule comes due several times while no worker is live, one task begins when a worker is live again.
 * 2. Calls may interleave, and any of them may die between two of its steps: in the end the queue holds what the hash says.
 * 3. A change takes up to ten commands, one after the other: each has the time of a call, so that a slow line carries them.
 *
 * The parent's hash is the source of truth and is written first; the queue follows it. The next read repairs a change that a
 * dead call left half done. A scheduler in the queue may have no schedule in the hash, or a paused one: the worker that takes
 * its next job begins no task and removes the scheduler. If a listed schedule is not in the queue, `listSchedules` adds it.
 */
import { createHash } from "node:crypto";
import { z } from "zod";
import { inBatches } from "../shared/batch.ts";
import { messageOf, SubagentError } from "../shared/errors.ts";
import { PAYLOAD_VERSION } from "../shared/protocol/agent.ts";
import { INTAKE_MAX_BYTES, intakeBytes } from "../shared/protocol/intake.ts";
import { WAKE_DONE_KEPT_MS } from "../shared/protocol/limits.ts";
import {
  CRON_FORM,
  MAX_SCHEDULES,
  NewRhythm,
  type Schedule,
  ScheduleId,
} from "../shared/protocol/schedule.ts";
import { clip } from "../shared/protocol/text.ts";
import type { Recurrence } from "../shared/redis/intake-queue.ts";
import { canonical, nullsLeftOut, readInput } from "./input.ts";
import { type ParentCall, type ParentContext, withRead, withSteps } from "./parent-context.ts";
import { registeredProfile } from "./registered-profile.ts";
import {
  findSchedule,
  forgetSchedule,
  requireMemoryFor,
  storedSchedule,
  storeSchedule,
  unknownSchedule,
} from "./schedule-store.ts";
import { checkSpawn, type TaskInput, withJsonSchema } from "./spawn-input.ts";

/** The input of `Parent.schedule`: the times, and the task. */
export type ScheduleInput = TaskInput & {
  /** Its name within the parent; the same name again replaces the schedule. */
  schedule_id: string;
  /** A cron pattern of five fields (minute first) or six (second first). */
  cron?: string | undefined;
  /** Time zone of `cron`, default UTC. */
  tz?: string | undefined;
  /** Interval, ms, at least 1,000; the schedule first comes due after one interval. */
  every_ms?: number | undefined;
  /** One time, a `Date` or ISO 8601. A time up to a minute ago comes due at once; an earlier one is refused. */
  at?: Date | string | undefined;
};

/** A schedule as its parent sees it. */
export interface ScheduleView {
  schedule_id: string;
  cron?: string;
  tz?: string;
  every_ms?: number;
  at?: string;
  paused: boolean;
  /** ISO 8601; absent while it is paused. */
  next_at?: string;
  created_at: string;
  prompt: string;
  /** The other options of the task, as given: `name`, `tools`, `limits`… */
  options: Readonly<Record<string, unknown>>;
}

/** Maximum age of an `at` that is accepted: clocks may differ and a call may be late by this much. */
const LATEST_MS = 60_000;
/** Schedules of up to 768 KB that are read at a time. */
const AT_ONCE = 8;

const AtOf = z.looseObject({ at: z.date() });
const When = z.looseObject({ schedule_id: ScheduleId, ...NewRhythm });

/** Stores a schedule and adds it to the queue; see `Parent.schedule`. */
export async function schedule(context: ParentContext, input: unknown): Promise<ScheduleView> {
  const { schedule_id, cron, tz, every_ms, at, ...task } = readScheduleInput(input);
  const registered = await registeredProfile(context);
  const { prompt = "" } = checkSpawn("task", task, context).withProfile(registered);
  const put = () =>
    withSteps(context, async (call) => {
      await call.client.requireDurable(call);
      const earlier = await storedSchedule(call, schedule_id);
      const isOver = earlier !== undefined && (await hasRun(call, earlier.schedule));
      const before = earlier?.schedule;
      const written_at = new Date(call.client.clock.now()).toISOString();
      const made: Schedule = {
        v: PAYLOAD_VERSION,
        schedule_id,
        tenant: call.parent.tenant,
        parent_id: call.parent.parentId,
        ...(cron !== undefined && { cron, tz: tz ?? "UTC" }),
        ...(every_ms !== undefined && { every_ms }),
        ...(at !== undefined && { at }),
        paused: false,
        created_at: before?.created_at ?? written_at,
        written_at,
        task: { ...optionsFor(context), ...task, prompt },
      };
      // A change that has read a schedule writes its fields in another order.
      const isSame = before && canonical(before) === canonical({ ...made, written_at: before.written_at });
      // The same single one that has run, as from a program that starts again: its task is not bought twice.
      if (before && isOver && isSame) return view(call, before);
      // A schedule that stands may be written again when its time is past: the caller repeats a call with an unknown outcome.
      if (isOver || at !== before?.at) refusePast(at, call.client.clock.now());
      if (isOver) made.created_at = written_at;
      const goesOn = isSame && at === undefined;
      // The same schedule again: a task that has come due stays due.
      if (goesOn) made.written_at = before?.written_at;
      await refuseUnreadable(call, made);
      // Full memory refuses what is written, not what is removed.
      if (earlier) await requireMemoryFor(call, earlier);
      // Another form may have another scheduler or job in the queue.
      if (before && !goesOn) await dequeue(call, before);
      if ((await storeSchedule(call, made)) === "full") return undefined;
      await syncQueue(call, made);
      return view(call, made);
    });
  // Schedules with `at` that have run make room.
  const stored = (await put()) ?? ((await readUnfinished(context)).length < MAX_SCHEDULES && (await put()));
  if (stored) return stored;
  throw refused(`this parent has ${MAX_SCHEDULES} schedules, the most allowed: remove one`);
}

/** Returns the parent's schedules by name. Removes those with `at` that have run; adds a missing one to the queue. */
export async function listSchedules(context: ParentContext): Promise<ScheduleView[]> {
  const unfinished = await readUnfinished(context);
  return inBatches(unfinished, AT_ONCE, (each) =>
    withSteps(context, async (call) => {
      if (!each.paused && !(await isQueued(call, each))) {
        await dequeue(call, each);
        await syncQueue(call, each);
      }
      return view(call, each);
    }),
  );
}

/** Stops a schedule until {@link resumeSchedule}; agents that were begun go on. Idempotent. `unknown_schedule`. */
export function pauseSchedule(context: ParentContext, scheduleId: unknown): Promise<ScheduleView> {
  return withSteps(context, async (call) => {
    const paused = await change(call, scheduleId, async (found) => ({ ...found, paused: true }));
    await syncQueue(call, paused);
    return view(call, paused);
  });
}

/** Resumes a paused schedule: it comes due again by its pattern from now on. Idempotent. `unknown_schedule`. */
export function resumeSchedule(context: ParentContext, scheduleId: unknown): Promise<ScheduleView> {
  return withSteps(context, async (call) => {
    const resumed = await change(call, scheduleId, async (found) => {
      // The job of a schedule with `at` may have come due during the pause and begun nothing: remove it to free its id.
      if (found.paused) await dequeue(call, found);
      // A schedule that repeats and was not paused keeps what has come due.
      const isNew = found.paused || found.at !== undefined;
      const written_at = isNew ? new Date(call.client.clock.now()).toISOString() : found.written_at;
      return { ...found, paused: false, ...(written_at !== undefined && { written_at }) };
    });
    await syncQueue(call, resumed);
    return view(call, resumed);
  });
}

/** Removes a schedule; agents that were begun go on. `unknown_schedule`. */
export function unschedule(context: ParentContext, scheduleId: unknown): Promise<{ status: "removed" }> {
  return withSteps(context, async (call) => {
    const { schedule: found } = await findSchedule(call, scheduleId);
    await forgetSchedule(call, found);
    await syncQueue(call, found);
    return { status: "removed" };
  });
}

/** Changes a schedule that has not run; `changed` may be asked again. Rejects with `unknown_schedule`. */
async function change(
  call: ParentCall,
  scheduleId: unknown,
  changed: (found: Schedule) => Promise<Schedule>,
): Promise<Schedule> {
  for (;;) {
    const { text, schedule: found } = await findSchedule(call, scheduleId);
    if (await hasRun(call, found)) {
      if (await forgetSchedule(call, found, text)) throw unknownSchedule(scheduleId);
      continue;
    }
    const made = await changed(found);
    if ((await storeSchedule(call, made, text)) === "stored") return made;
  }
}

/** Reads the caller's input. Refuses options that a schedule cannot have, because each due time reuses the same input. */
function readScheduleInput(input: unknown): z.output<typeof When> {
  const given = withTimeAsText(withJsonSchema(input, "schedule").input);
  const read = readInput(nullsLeftOut(When), given, "schedule");
  const { cron, tz, every_ms, at } = read;
  const rhythms = [cron, every_ms, at].filter((each) => each !== undefined);
  if (rhythms.length !== 1) throw refused("give exactly one of cron, every_ms and at");
  if (tz !== undefined && cron === undefined) throw refused("tz goes with cron");
  if (tz !== undefined && !isTimeZone(tz))
    throw refused("tz: is no time zone; write one such as Europe/Berlin");
  if ("request_key" in read)
    throw refused("a schedule has no request_key: each time it comes due is one of its own");
  if ("traceparent" in read)
    throw refused(
      "a schedule has no traceparent: each time it comes due is a trace of its own; leave it out",
    );
  if ("files" in read || "images" in read)
    throw refused(
      "a schedule brings no files or images: put them into a directory that is open to the workers",
    );
  return read;
}

/** Returns `input` with a `Date` in `at` as ISO 8601; leaves an invalid `Date` for the schema to refuse. */
function withTimeAsText(input: unknown): unknown {
  const { at } = AtOf.safeParse(input).data ?? {};
  return at === undefined ? input : { ...Object(input), at: at.toISOString() };
}

/** Throws if `at` is past: the year or the zone is probably wrong, and work that begins now is a task. */
function refusePast(at: string | undefined, nowMs: number): void {
  if (at === undefined || Date.parse(at) >= nowMs - LATEST_MS) return;
  throw refused(`at: ${at} is past; write a time that is to come, or begin the task itself`);
}

/**
 * Returns the parent's options for the job: the worker that begins the task creates the same parent from them, under the profile
 * that is registered when the schedule comes due. `default_model` is the operator's of this client: it counts if no other model is
 * named by then. The lease is not included, because a schedule outlives its parent.
 */
function optionsFor({ profile: { own }, operator: { model } }: ParentContext) {
  return {
    ...(Object.keys(own).length > 0 && { profile: own }),
    ...(model !== undefined && { default_model: model }),
  };
}

/** The fields of a schedule that name its scheduler or job in the queue. */
type Named = Pick<Schedule, "tenant" | "parent_id" | "schedule_id" | "at"> & { created_at?: string };

/** Returns the name of a schedule's scheduler; the job id of a schedule with `at` is a digest that includes it. */
export function schedulerNameOf({ tenant, parent_id, schedule_id }: Named): string {
  return `${tenant}/${parent_id}/${schedule_id}`;
}

/** Returns the job id of a schedule with `at`. */
export function singleJobId(made: Named): string {
  const digest = createHash("sha256")
    .update(`${schedulerNameOf(made)} ${made.at} ${made.created_at}`)
    .digest("hex");
  return `at-${digest.slice(0, 32)}`;
}

/** Returns the recurrence of a schedule with `cron` or `every_ms`. */
function recurrenceOf({ cron, tz, every_ms = 0 }: Schedule, nowMs: number): Recurrence {
  return cron === undefined
    ? { every: every_ms, startDate: nowMs + every_ms }
    : { pattern: cron, ...(tz !== undefined && { tz }) };
}

function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** Returns the job's data for each due time. The agent has the schedule's name by default. */
function jobDataOf({ tenant, parent_id, schedule_id, at, task }: Schedule) {
  // The job id of a schedule with `at` is a digest, so the data names the schedule.
  const named = at === undefined ? {} : { schedule_id };
  return { name: schedule_id, ...task, ...named, tenant, parent_id, reply: "channel" };
}

/** Throws for a task that is too long or a bad cron pattern, before anything is written. */
async function refuseUnreadable({ client }: ParentCall, made: Schedule): Promise<void> {
  if (intakeBytes(JSON.stringify(jobDataOf(made))) > INTAKE_MAX_BYTES)
    throw refused(
      `the task and this parent's options have more than ${INTAKE_MAX_BYTES} bytes together: shorten them, or register the options`,
    );
  const nowMs = client.clock.now();
  await client.intakeQueue.check(recurrenceOf(made, nowMs), nowMs).catch((error: unknown) => {
    throw refused(`cron: write ${CRON_FORM} (${clip(messageOf(error), 200)})`);
  });
}

/**
 * Makes the queue match the hash, and repeats that if the hash has changed meanwhile: so the last call that changes the
 * queue has read the final hash, however calls interleave. `known`: the form of the schedule that the queue may hold.
 */
export async function syncQueue(call: ParentCall, known: Named): Promise<void> {
  const stored = (await storedSchedule(call, known.schedule_id))?.schedule;
  const isDue = stored !== undefined && !stored.paused;
  if (!isDue || slotOf(stored) !== slotOf(known)) await dequeue(call, known);
  if (isDue) await enqueue(call, stored);
  const after = (await storedSchedule(call, known.schedule_id))?.schedule;
  if (JSON.stringify(after) !== JSON.stringify(stored)) await syncQueue(call, stored ?? known);
}

/** Returns the name of its scheduler or the id of its job: two forms of one schedule share a scheduler, but not a job. */
function slotOf(made: Named): string {
  return made.at === undefined ? schedulerNameOf(made) : singleJobId(made);
}

/** Returns whether the queue has the schedule's scheduler, or a job of a schedule with `at` that has begun or may begin its task. */
function isQueued({ read, client: { intakeQueue } }: ParentCall, made: Schedule): Promise<boolean> {
  return read(async () =>
    made.at === undefined
      ? (await intakeQueue.nextAt(schedulerNameOf(made))) !== undefined
      : ["waiting", "over"].includes(await intakeQueue.stateOf(singleJobId(made))),
  );
}

async function enqueue({ write, client }: ParentCall, made: Schedule): Promise<void> {
  const { intakeQueue, clock } = client;
  const { at } = made;
  const data = jobDataOf(made);
  const nowMs = clock.now();
  await write({ what: "the schedule", key: { schedule_id: made.schedule_id } }, () =>
    at === undefined
      ? intakeQueue.repeat(schedulerNameOf(made), recurrenceOf(made, nowMs), data)
      : intakeQueue.add(singleJobId(made), data, Math.max(0, Date.parse(at) - nowMs)),
  );
}

async function dequeue({ write, client: { intakeQueue } }: ParentCall, made: Named): Promise<void> {
  await write({ what: "the schedule's stop", key: { schedule_id: made.schedule_id } }, () =>
    made.at === undefined
      ? intakeQueue.endRepeat(schedulerNameOf(made))
      : intakeQueue.remove(singleJobId(made)),
  );
}

/**
 * Reads the parent's schedules by name, and removes those with `at` that have run. They may have 77 MB together: each is read in
 * a call of its own, {@link AT_ONCE} at a time, so that no call runs out of its time and Redis serves others meanwhile.
 */
async function readUnfinished(context: ParentContext): Promise<Schedule[]> {
  const names = await withRead(context, ({ parent, client: { redis, keys } }) =>
    redis.hkeys(keys.parent(parent).schedules),
  );
  const found = await inBatches(names, AT_ONCE, (name) =>
    withSteps(context, async (call) => {
      for (;;) {
        const stored = await storedSchedule(call, name);
        if (!stored) return [];
        if (!(await hasRun(call, stored.schedule))) return stored.schedule;
        if (await forgetSchedule(call, stored.schedule, stored.text)) return [];
      }
    }),
  );
  return found.flat().sort((a, b) => (a.schedule_id < b.schedule_id ? -1 : 1));
}

/**
 * Returns whether the schedule has `at` and its job has ended, with its task begun or refused. If the queue does not have the job,
 * the call that wrote the schedule may be about to add it, or have died: then it counts as run only after {@link WAKE_DONE_KEPT_MS}.
 */
async function hasRun(call: ParentCall, made: Schedule): Promise<boolean> {
  const { clock, intakeQueue } = call.client;
  const since = (time: string) => clock.now() - Date.parse(time);
  if (made.at === undefined || since(made.at) < 0) return false;
  const state = await call.read(() => intakeQueue.stateOf(singleJobId(made)));
  if (state !== "unknown") return state === "over";
  if (made.paused) return false;
  return Math.min(since(made.at), since(made.written_at ?? made.created_at)) > WAKE_DONE_KEPT_MS;
}

async function view({ read, client }: ParentCall, made: Schedule): Promise<ScheduleView> {
  const { schedule_id, cron, tz, every_ms, at, paused, created_at } = made;
  const { profile: _, default_model: __, prompt, ...options } = made.task;
  const next = at ? Date.parse(at) : await read(() => client.intakeQueue.nextAt(schedulerNameOf(made)));
  return {
    schedule_id,
    ...(cron !== undefined && { cron }),
    ...(tz !== undefined && { tz }),
    ...(every_ms !== undefined && { every_ms }),
    ...(at !== undefined && { at }),
    paused,
    ...(!paused && next !== undefined && { next_at: new Date(next).toISOString() }),
    created_at,
    prompt,
    options,
  };
}

function refused(why: string): SubagentError {
  return new SubagentError("invalid_input", `schedule refused, nothing was done: ${why}.`);
}
