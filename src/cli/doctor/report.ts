/** What the doctor says, as programs read it (`doctor --json`). Fields are added, never changed in meaning. */
import { z } from "zod";

/** `ok`: nothing to do; `warn`: look at it; `error`: work is stuck, lost, or about to be. */
export const Severity = z.enum(["ok", "warn", "error"]);
/** See {@link Severity}. */
export type Severity = z.infer<typeof Severity>;

/** What was looked at, in the order in which it is shown. */
export const Area = z.enum(["redis", "workers", "agents", "replies", "workspaces", "model"]);
/** See {@link Area}. */
export type Area = z.infer<typeof Area>;

/** One kind of trouble and everything it was found at. */
export const Finding = z.object({
  /** Stable name of the check. */
  check: z.string(),
  area: Area,
  severity: z.enum(["warn", "error"]),
  /** A sentence without names. */
  what: z.string(),
  /** How many were found; at least 1. */
  count: z.int().min(1),
  /** Which ones, the first 100. Ids only: never prompts, replies or secrets. */
  names: z.array(z.string()).max(100),
  /** What to do about it. */
  todo: z.string(),
  /** Whether `doctor --fix` repairs it. */
  fixable: z.boolean(),
});
/** See {@link Finding}. */
export type Finding = z.infer<typeof Finding>;

/** What `--fix` repaired: of which check, how many, which ones (the first 100). */
export const Repaired = z.object({
  check: z.string(),
  did: z.string(),
  count: z.int().min(1),
  names: z.array(z.string()).max(100),
});
/** See {@link Repaired}. */
export type Repaired = z.infer<typeof Repaired>;

const AreaLine = z.object({ area: Area, severity: Severity, summary: z.string() });
/** How many calls a second the model backend answered at one number of calls side by side. */
const Throughput = z.object({ concurrency: z.int(), calls: z.int(), calls_per_second: z.number() });
/** The whole report. `repaired` is there after `--fix`, `measured` after `--measure`. */
export const DoctorReport = z.object({
  v: z.literal(1),
  status: z.enum(["healthy", "warnings", "errors"]),
  /** Redis' own time, ISO 8601. */
  checked_at: z.string(),
  /** Without password. */
  redis: z.string(),
  prefix: z.string(),
  errors: z.int(),
  warnings: z.int(),
  areas: z.array(AreaLine),
  findings: z.array(Finding),
  repaired: z.array(Repaired).optional(),
  measured: z.array(Throughput).optional(),
});
/** See {@link DoctorReport}. */
export type DoctorReport = z.infer<typeof DoctorReport>;
