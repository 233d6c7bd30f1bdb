/** A scheduled task, as its parent defines it. */
import { z } from "zod";
import { PAYLOAD_VERSION } from "./agent.ts";
import { ParentId, TenantId } from "./ids.ts";
import { DAY_MS } from "./usage.ts";

/** Maximum number of schedules of one parent. */
export const MAX_SCHEDULES = 100;
/** Form of a cron pattern, for help and for refusals. */
export const CRON_FORM = "five fields, or six with seconds first, such as 0 7 * * 1-5";
/** Bounds of the interval of a schedule, ms. */
export const SHORTEST_EVERY_MS = 1_000;
/** See {@link SHORTEST_EVERY_MS}. */
export const LONGEST_EVERY_MS = 366 * DAY_MS;

/** The name of a schedule within its parent; same form as a parent's. */
export const ScheduleId = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/,
    "1 to 64 characters of A-Z a-z 0-9 . _ -, starting with a letter or digit",
  );

/** Due times of a schedule: exactly one of `cron`, `every_ms` and `at` is set. `tz` goes with `cron`, default UTC. */
const Rhythm = {
  /** Five or six fields, e.g. `0 7 * * 1-5`. */
  cron: z.string().trim().min(9, `write ${CRON_FORM}`).max(128).optional(),
  /** An IANA time zone such as `Europe/Berlin`. */
  tz: z.string().min(1).max(64).optional(),
  /** 1 s to 366 days; the schedule is first due after one such interval. */
  every_ms: z.int().min(SHORTEST_EVERY_MS).max(LONGEST_EVERY_MS).optional(),
  /** One due time, ISO 8601. */
  at: z.iso.datetime({ offset: true, error: "write a time such as 2030-01-01T08:00:00Z" }).optional(),
};

/** Due times of a new schedule. Refuses `H`, which earlier versions took: the parser makes another time of it at each look. */
export const NewRhythm = {
  ...Rhythm,
  cron: Rhythm.cron.refine((pattern) => !/\bH\b/i.test(pattern ?? ""), "write a number in place of H"),
};

/** A schedule as stored. `task`: arguments of the task, checked when the schedule is created and each time it is due. */
export const Schedule = z.object({
  v: z.literal(PAYLOAD_VERSION),
  schedule_id: ScheduleId,
  tenant: TenantId,
  parent_id: ParentId,
  ...Rhythm,
  paused: z.boolean(),
  created_at: z.string(),
  /**
   * When it was last written so that its job has to be added, ISO 8601; absent in those of earlier versions. What repeats begins
   * nothing that came due before.
   */
  written_at: z.string().optional(),
  task: z.looseObject({ prompt: z.string() }),
});
/** See {@link Schedule}. */
export type Schedule = z.output<typeof Schedule>;
