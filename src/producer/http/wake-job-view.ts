/** What the dashboard shows of a wake's job: ids, states and counts, whatever else somebody may have put there. */
import { z } from "zod";
import { AgentId } from "../../shared/protocol/ids.ts";
import { STOP_REASONS, StopReason } from "../../shared/protocol/reply.ts";
import { Wake } from "../../shared/protocol/wake.ts";

/** The fields of a job that can hold more than ids. */
export interface JobFields {
  name: string;
  data: unknown;
  returnvalue: unknown;
  progress: unknown;
  failedReason?: string;
  stacktrace: string[] | null;
  opts: { attempts?: number; delay?: number };
}

const HIDDEN = "(hidden)";
const NOT_A_WAKE = { hidden: "This job is no wake of this version." };
const FAILED_RUN = /^The run ended as failed: ([a-z_]+)\.$/;
const FAILED_OTHERWISE = "Failed outside of a run; the worker's log says why.";

/** Ids only, in the wake's own order. */
const VisibleWake = Wake.extend({ agent_id: AgentId });

/** How a wake ended: `status` of the run, or that there was none and why. */
const VisibleResult = z.object({
  status: z.string().regex(/^[a-z]{1,16}$/),
  stop_reason: StopReason.optional(),
  turns: z.int().min(0).optional(),
  because: z
    .string()
    .regex(/^[a-z_]{1,32}$/)
    .optional()
    .catch(undefined),
});

/** The fields of `job` as they may be shown. */
export function visibleFields(job: JobFields): Omit<JobFields, "failedReason"> & { failedReason: string } {
  const wake = VisibleWake.safeParse(job.data);
  const result = VisibleResult.safeParse(job.returnvalue);
  const { attempts, delay } = job.opts;
  return {
    name: AgentId.safeParse(job.name).success ? job.name : HIDDEN,
    data: wake.success ? wake.data : NOT_A_WAKE,
    returnvalue: result.success ? result.data : null,
    progress: typeof job.progress === "number" ? job.progress : 0,
    failedReason: visibleReason(job.failedReason),
    stacktrace: [],
    opts: { ...(attempts !== undefined && { attempts }), ...(delay !== undefined && { delay }) },
  };
}

function visibleReason(reason = ""): string {
  if (reason === "") return "";
  const stopReason = FAILED_RUN.exec(reason)?.[1];
  const known: readonly string[] = STOP_REASONS.failed;
  return stopReason !== undefined && known.includes(stopReason) ? reason : FAILED_OTHERWISE;
}
