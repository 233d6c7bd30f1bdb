/**
 * The schedules of a parent: tasks that come due by themselves. BullMQ's schedulers put them into the intake queue, where a
 * worker process begins them; their replies come into the parent's channel.
 *
 * 1. What came due while no worker lived becomes one task when one does, however often it would have come.
 * 2. However calls interleave, and whichever of them dies between two of its steps, in the end the queue holds what the
 *    hash says.
 *
 * What stands in the parent's hash decides, and is written first; the queue follows it. What a call that died has left is put
 * right by the first look at it: what ticks and is not listed, or is paused, by the worker that takes the tick, which
 * begins nothing; what is listed and does not tick by the listing.
 */
import { createHash } from "node:crypto";
import { z } from "zod";
import { messageOf, SubagentError } from "../shared/errors.ts";
import { PAYLOAD_VERSION } from "../shared/protocol/agent.ts";
import { INTAKE_MAX_BYTES } from "../shared/protocol/intake.ts";
import { addressOfParent } from "../shared/protocol/keys.ts";
import { WAKE_DONE_KEPT_MS } from "../shared/protocol/limits.ts";
import { CRON_FORM, MAX_SCHEDULES, Rhythm, Schedule, ScheduleId } from "../shared/protocol/schedule.ts";
import { clip, quoted } from "../shared/protocol/text.ts";
import type { Recurrence } from "../shared/redis/intake-queue.ts";
import { nullsLeftOut, type ProfileInput, type RegisteredProfile, readInput } from "./input.ts";
import { type ParentCall, type ParentContext, withCall } from "./parent-context.ts";
import { registeredProfile } from "./registered-profile.ts";
import { checkSpawn, type TaskInput, withJsonSchema } from "./spawn-input.ts";

/** What `Parent.schedule` takes: when, and the task. */
export type ScheduleInput = TaskInput & {
  /** Its name within the parent; the same name again replaces the schedule. */
  schedule_id: string;
  /** A cron pattern of five fields (minute first) or six (second first). */
  cron?: string | undefined;
  /** Time zone of `cron`, default UTC. */
  tz?: string | undefined;
  /** Every so many ms, at least 1,000; the first time after one such interval. */
  every_ms?: number | undefined;
  /** Once, a `Date` or ISO 8601; at most a minute ago, which comes due at once. */
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
  /** What else was set of the task, as it was given: `name`, `tools`, `limits`… */
  options: Readonly<Record<string, unknown>>;
}

/** Clocks may be that far apart, and a call that late: so old a time is not taken for a mistake. */
const LATEST_MS = 60_000;

const AtOf = z.looseObject({ at: z.date() });
const When = z.looseObject({ schedule_id: ScheduleId, ...Rhythm });

/** Writes a schedule down; see `Parent.schedule`. */
export async function schedule(context: ParentContext, input: unknown): Promise<ScheduleView> {
  const { schedule_id, cron, tz, every_ms, at, ...task } = readWish(input);
  const registered = await registeredProfile(context);
  const { prompt = "" } = checkSpawn("task", task, context).withProfile(registered);
  const { parent } = context.profile;
  return withCall(context, async (call) => {
    const before = await standing(call, schedule_id);
    // One that stands may be written again, as a call in doubt is, also when its time has come.
    if (at !== before?.at) refusePast(at, call.client.clock.now());
    const made: Schedule = {
      v: PAYLOAD_VERSION,
      schedule_id,
      tenant: parent.tenant,
      parent_id: parent.parentId,
      ...(cron !== undefined && { cron, tz: tz ?? "UTC" }),
      ...(every_ms !== undefined && { every_ms }),
      ...(at !== undefined && { at }),
      paused: false,
      created_at: before?.created_at ?? new Date(call.client.clock.now()).toISOString(),
      task: { ...optionsFor(context, registered), ...task, prompt },
    };
    await refuseUnreadable(call, made);
    // It may have come due in another way before.
    if (before) await dequeue(call, before);
    let stored = await store(call, made, false);
    // Single ones that have run make room.
    if (stored === "full" && (await removeFinished(call))) stored = await store(call, made, false);
    if (stored === "full")
      throw refused(`this parent has ${MAX_SCHEDULES} schedules, the most allowed: remove one`);
    await follow(call, made);
    return view(call, made);
  });
}

/** The parent's schedules by name; a single one that has run is gone, and what a call that died did not begin is begun. */
export function listSchedules(context: ParentContext): Promise<ScheduleView[]> {
  return withCall(context, async (call) => {
    await removeFinished(call);
    return Promise.all(
      (await readAll(call)).map(async (each) => {
        if (!each.paused && !(await isQueued(call, each))) await follow(call, each);
        return view(call, each);
      }),
    );
  });
}

/** Stops a schedule until {@link resumeSchedule}; agents that were begun go on. Idempotent. `unknown_schedule`. */
export function pauseSchedule(context: ParentContext, scheduleId: unknown): Promise<ScheduleView> {
  return withCall(context, async (call) => {
    const paused = { ...(await find(call, scheduleId)), paused: true };
    await change(call, paused);
    await follow(call, paused);
    return view(call, paused);
  });
}

/** A paused schedule comes due again, by its pattern from now on. Idempotent. `unknown_schedule`. */
export function resumeSchedule(context: ParentContext, scheduleId: unknown): Promise<ScheduleView> {
  return withCall(context, async (call) => {
    const found = await find(call, scheduleId);
    const resumed = { ...found, paused: false };
    // The job of a single one may have come due meanwhile and begun nothing: its id is to be free again.
    if (found.paused) await dequeue(call, found);
    await change(call, resumed);
    await follow(call, resumed);
    return view(call, resumed);
  });
}

/** Removes a schedule; agents that were begun go on. `unknown_schedule`. */
export function unschedule(context: ParentContext, scheduleId: unknown): Promise<{ status: "removed" }> {
  return withCall(context, async (call) => {
    const found = await find(call, scheduleId);
    await forget(call, found);
    await follow(call, found);
    return { status: "removed" };
  });
}

/** What the caller says, but for what no schedule can have: all of it is there again each time the schedule comes due. */
function readWish(input: unknown): z.output<typeof When> {
  const given = withTimeAsText(withJsonSchema(input, "schedule").input);
  const wish = readInput(nullsLeftOut(When), given, "schedule");
  const { cron, tz, every_ms, at } = wish;
  const rhythms = [cron, every_ms, at].filter((each) => each !== undefined);
  if (rhythms.length !== 1) throw refused("give exactly one of cron, every_ms and at");
  if (tz !== undefined && cron === undefined) throw refused("tz goes with cron");
  if (tz !== undefined && !isTimeZone(tz))
    throw refused("tz: is no time zone; write one such as Europe/Berlin");
  if ("request_key" in wish)
    throw refused("a schedule has no request_key: each time it comes due is one of its own");
  if ("traceparent" in wish)
    throw refused(
      "a schedule has no traceparent: each time it comes due is a trace of its own; leave it out",
    );
  if ("files" in wish || "images" in wish)
    throw refused(
      "a schedule brings no files or images: put them into a directory that is open to the workers",
    );
  return wish;
}

/** `input` with a `Date` of `at` as it is stored; one that is no point in time is refused as it stands. */
function withTimeAsText(input: unknown): unknown {
  const { at } = AtOf.safeParse(input).data ?? {};
  return at === undefined ? input : { ...Object(input), at: at.toISOString() };
}

/** A single time that is past is a mistake, of the year or the zone: what is to begin now is a task. */
function refusePast(at: string | undefined, nowMs: number): void {
  if (at === undefined || Date.parse(at) >= nowMs - LATEST_MS) return;
  throw refused(`at: ${at} is past; write a time that is to come, or begin the task itself`);
}

/**
 * The parent's options, which the worker that begins the task does not know: it makes the same parent with them. What is
 * registered is worked in when the schedule comes due, so only where no model is registered the operator's goes along. A
 * lease is none of them: a schedule outlives its parent.
 */
function optionsFor(
  { profile: { own }, operator }: ParentContext,
  { profile: registered }: RegisteredProfile,
): { profile?: ProfileInput } {
  const model = own.model ?? (registered.model === undefined ? operator.model : undefined);
  if (model === undefined && Object.keys(own).length === 0) return {};
  return { profile: { ...(model !== undefined && { model }), ...own } };
}

/** By what the queue knows what it holds of a schedule. */
type Named = Pick<Schedule, "tenant" | "parent_id" | "schedule_id" | "at"> & { created_at?: string };

/** The name of the scheduler, and a part of the name of a single one's job. */
export function nameOf({ tenant, parent_id, schedule_id }: Named): string {
  return `${tenant}/${parent_id}/${schedule_id}`;
}

/** The id of a single one's job. */
export function jobOf(made: Named): string {
  const digest = createHash("sha256")
    .update(`${nameOf(made)} ${made.at} ${made.created_at}`)
    .digest("hex");
  return `at-${digest.slice(0, 32)}`;
}

/** How a schedule that comes due more than once does. */
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

/** The job's data each time the schedule comes due. Without a name of its own the agent has the schedule's. */
function wishOf({ tenant, parent_id, schedule_id, at, task }: Schedule) {
  // The id of a single one's job does not say which it is.
  const named = at === undefined ? {} : { schedule_id };
  return { name: schedule_id, ...task, ...named, tenant, parent_id, reply: "channel" };
}

/** Before anything is written. */
async function refuseUnreadable({ client }: ParentCall, made: Schedule): Promise<void> {
  if (Buffer.byteLength(JSON.stringify(wishOf(made))) > INTAKE_MAX_BYTES)
    throw refused(
      `the task and this parent's options have more than ${INTAKE_MAX_BYTES} bytes together: shorten them, or register the options`,
    );
  const nowMs = client.clock.now();
  await client.intakeQueue.check(recurrenceOf(made, nowMs), nowMs).catch((error: unknown) => {
    throw refused(`cron: write ${CRON_FORM} (${clip(messageOf(error), 200)})`);
  });
}

/**
 * Brings the queue to what the hash says, again until the hash has not changed meanwhile: so the call that changes the queue
 * last has seen the hash as it stays, however calls interleave. `known`: what the queue may hold of the schedule.
 */
export async function follow(call: ParentCall, known: Named): Promise<void> {
  const stands = await standing(call, known.schedule_id);
  const isDue = stands !== undefined && !stands.paused;
  if (!isDue || slotOf(stands) !== slotOf(known)) await dequeue(call, known);
  if (isDue) await enqueue(call, stands);
  const after = await standing(call, known.schedule_id);
  if (JSON.stringify(after) !== JSON.stringify(stands)) await follow(call, stands ?? known);
}

/** What it has in the queue: two schedules of one name may have the same scheduler, or a job each. */
function slotOf(made: Named): string {
  return made.at === undefined ? nameOf(made) : jobOf(made);
}

/** Whether the queue knows it: has its scheduler, or the job of a single one. */
function isQueued({ read, client: { intakeQueue } }: ParentCall, made: Schedule): Promise<boolean> {
  return read(async () =>
    made.at === undefined
      ? (await intakeQueue.nextAt(nameOf(made))) !== undefined
      : (await intakeQueue.stateOf(jobOf(made))) !== "unknown",
  );
}

async function enqueue({ write, client }: ParentCall, made: Schedule): Promise<void> {
  const { intakeQueue, clock } = client;
  const { at } = made;
  const wish = wishOf(made);
  const nowMs = clock.now();
  await write({ what: "the schedule", key: { schedule_id: made.schedule_id } }, () =>
    at === undefined
      ? intakeQueue.repeat(nameOf(made), recurrenceOf(made, nowMs), wish)
      : intakeQueue.add(jobOf(made), wish, Math.max(0, Date.parse(at) - nowMs)),
  );
}

async function dequeue({ write, client: { intakeQueue } }: ParentCall, made: Named): Promise<void> {
  await write({ what: "the schedule's stop", key: { schedule_id: made.schedule_id } }, () =>
    made.at === undefined ? intakeQueue.endRepeat(nameOf(made)) : intakeQueue.remove(jobOf(made)),
  );
}

/** `known`: a change of one that stands there. */
async function store({ write, parent, client }: ParentCall, made: Schedule, known: boolean) {
  const { schedule_id } = made;
  const answer = await write({ what: "the schedule", key: { schedule_id } }, () =>
    client.store.schedule(addressOfParent(parent), { schedule_id, known, json: JSON.stringify(made) }),
  );
  return answer.status;
}

/** `unknown_schedule` when it was removed meanwhile. */
async function change(call: ParentCall, made: Schedule): Promise<void> {
  if ((await store(call, made, true)) === "gone") throw unknownSchedule(made.schedule_id);
}

async function forget({ write, parent, client }: ParentCall, { schedule_id }: Schedule): Promise<void> {
  const { redis, keys } = client;
  await write({ what: "the removal", key: { schedule_id } }, () =>
    redis.hdel(keys.parent(parent).schedules, schedule_id),
  );
}

/** Forgets single ones that have run; true when there were any. */
async function removeFinished(call: ParentCall): Promise<boolean> {
  let dropped = false;
  for (const each of await readAll(call)) {
    if (!(await hasRun(call, each))) continue;
    await forget(call, each);
    dropped = true;
  }
  return dropped;
}

/** Whether it is a single one whose job is over. One that the queue does not know may be on its way into it. */
async function hasRun({ read, client }: ParentCall, made: Schedule): Promise<boolean> {
  const { clock, intakeQueue } = client;
  const sinceMs = clock.now() - Date.parse(made.at ?? "");
  if (made.at === undefined || made.paused || sinceMs < 0) return false;
  const state = await read(() => intakeQueue.stateOf(jobOf(made)));
  if (state !== "unknown") return state === "over";
  return Math.min(sinceMs, clock.now() - Date.parse(made.created_at)) > WAKE_DONE_KEPT_MS;
}

async function readAll({ read, parent, client: { redis, keys } }: ParentCall): Promise<Schedule[]> {
  const texts = await read(() => redis.hvals(keys.parent(parent).schedules));
  return texts
    .flatMap((text) => readSchedule(text) ?? [])
    .sort((a, b) => (a.schedule_id < b.schedule_id ? -1 : 1));
}

async function standing(
  { read, parent, client: { redis, keys } }: ParentCall,
  scheduleId: string,
): Promise<Schedule | undefined> {
  return readSchedule(await read(() => redis.hget(keys.parent(parent).schedules, scheduleId)));
}

async function find(call: ParentCall, scheduleId: unknown): Promise<Schedule> {
  const id = ScheduleId.safeParse(scheduleId);
  const found = id.success ? await standing(call, id.data) : undefined;
  if (found) return found;
  throw unknownSchedule(scheduleId);
}

/** The refusal of a schedule that does not stand there. */
export function unknownSchedule(scheduleId: unknown): SubagentError {
  const shown = quoted(String(scheduleId));
  return new SubagentError("unknown_schedule", `This parent has no schedule ${shown}: list them.`);
}

async function view({ read, client }: ParentCall, made: Schedule): Promise<ScheduleView> {
  const { schedule_id, cron, tz, every_ms, at, paused, created_at } = made;
  const { profile: _, prompt, ...options } = made.task;
  const next = at ? Date.parse(at) : await read(() => client.intakeQueue.nextAt(nameOf(made)));
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

/** A stored schedule; undefined where there is none that this version can read. */
export function readSchedule(text: string | null): Schedule | undefined {
  try {
    return Schedule.safeParse(JSON.parse(text ?? "")).data;
  } catch {
    return undefined;
  }
}

function refused(why: string): SubagentError {
  return new SubagentError("invalid_input", `schedule refused, nothing was done: ${why}.`);
}
