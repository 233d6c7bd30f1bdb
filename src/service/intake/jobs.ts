/**
 * Takes the jobs of the intake queue: each becomes a task whose reply is the job's return value; see `intake.ts`.
 *
 * 1. The reply is acked when it stands in the job, not before: a process that dies in between loses nothing.
 * 2. A job that waits for room, or for Redis, is tried again later, as long as a message may wait for its answer. An error that
 *    nothing explains is met for {@link UNEXPLAINED_MS}; then the job fails.
 * 3. A job of a schedule that was removed or paused begins nothing, however long it has waited.
 * 4. A job of a schedule waits for room until the next one comes due, which then stands for it: nothing piles up.
 */
import { setMaxListeners } from "node:events";
import { z } from "zod";
import { waitForTask } from "../../producer/begin-task.ts";
import type { Client } from "../../producer/client.ts";
import { askSchedule, type DueTask } from "../../producer/due-schedules.ts";
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import { TIMING } from "../../shared/protocol/limits.ts";
import type { IntakeJob, JobEnd } from "../../shared/redis/intake-jobs.ts";
import { inputOfJob, senderOf } from "./input.ts";
import { handOver, tellRefusal } from "./spawn.ts";
import { hasNoRoom } from "./stream.ts";

const SentToChannel = z.looseObject({ reply: z.literal("channel") });
const LATER_MS = 500;
const LONGEST_LATER_MS = 10_000;
const UNEXPLAINED_MS = 60_000;
/** The return value of a job whose schedule did not want it any more. */
const NOTHING_BEGUN = { begun: false };

/** See the module's header. */
export interface JobTaker {
  /** What becomes of a job; never rejects. */
  take(job: IntakeJob): Promise<JobEnd>;
  /** Ends all waiting: each job goes to another process. */
  leaveAll(): void;
}

/** A taker over `client`. */
export function createJobTaker(client: Client, clock: Clock, logger: Logger): JobTaker {
  const leaving = new AbortController();
  setMaxListeners(0, leaving.signal);
  return {
    async take(job) {
      const waitedMs = clock.now() - job.dueAtMs;
      const delayMs = Math.min(LONGEST_LATER_MS, Math.max(LATER_MS, waitedMs / 10));
      let due: DueTask | undefined;
      try {
        due = await dueOf(client, job);
        if (due && !(due.isWanted && isFirst(job, clock))) return { status: "done", value: NOTHING_BEGUN };
        return await become(client, job, leaving.signal);
      } catch (error) {
        if (leaving.signal.aborted) return { status: "left" };
        logger.warn({ job: job.id, problem: messageOf(error) }, "An intake job was not handed over");
        if (mayTryAgain(error, waitedMs))
          return {
            status: "later",
            delayMs,
            ...(hasNoRoom(error) && { untilMs: due?.nextMs }),
          };
        return refuse(client, job, explained(error)).catch(() => ({ status: "later", delayMs }));
      }
    },
    leaveAll: () => leaving.abort(),
  };
}

/** What the parent's schedules say of a job; undefined: it is of none. */
async function dueOf(client: Client, { id, data }: IntakeJob): Promise<DueTask | undefined> {
  const sender = senderOf(data);
  return sender && askSchedule(client, sender.parent, id);
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

async function become(client: Client, { id, data }: IntakeJob, leaving: AbortSignal): Promise<JobEnd> {
  const wish = inputOfJob(data);
  const { receipt, task, parent } = await handOver(client, wish, id);
  if (!task || wish.reply === "channel") return { status: "done", value: receipt };
  const { reply, ack } = await waitForTask(parent, task, leaving);
  return { status: "done", value: reply, taken: () => void ack() };
}

/** The job fails; a parent that waits at its channel is told there, too. */
async function refuse(client: Client, { id, data }: IntakeJob, error: SubagentError): Promise<JobEnd> {
  const sender = SentToChannel.safeParse(data).success ? senderOf(data) : undefined;
  if (sender) await tellRefusal(client, sender, id, error);
  return { status: "refused", error };
}
