/**
 * Reads the intake stream, entry by entry, and hands each over; see `intake.ts`.
 *
 * 1. What could not be handed over because Redis was away stays in the stream and is claimed again, at most a day.
 * 2. An error that nothing explains is met {@link INTAKE_DELIVERIES} times; then it is a refusal.
 *
 * Entries of one reading are handed over side by side; the next ones are read when all are off our hands.
 */
import { type Client, internalsOf } from "../../producer/client.ts";
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import { TIMING } from "../../shared/protocol/limits.ts";
import { clip } from "../../shared/protocol/text.ts";
import { INTAKE_DELIVERIES, type IntakeEntry, type IntakeStream } from "../../shared/redis/intake-stream.ts";
import { inputOfEntry, senderOfEntry } from "./input.ts";
import { type IntakeQuota, ownerOf } from "./quota.ts";
import { handOver, jobIdOf, tellRefusal } from "./spawn.ts";

/** What is left behind is looked for so often. */
const CLAIM_EVERY_MS = 5_000;
/** Pause before Redis is asked again after a failure. */
const REST_MS = 1_000;
const REASON_MAX_CHARS = 500;

/** See the module's header. */
export interface StreamReader {
  /** Reads until `stop`. Idempotent. */
  start(): void;
  /** Resolves when no entry is in hand; ends a reading that blocks only with its connection. Idempotent. */
  stop(): Promise<void>;
}

/** What a reader works with. */
export interface StreamReaderParts {
  stream: IntakeStream;
  client: Client;
  quota: IntakeQuota;
  logger: Logger;
  clock: Clock;
}

/** A reader, not started. */
export function createStreamReader(parts: StreamReaderParts): StreamReader {
  const { stream, logger, clock } = parts;
  const stopped = new AbortController();
  let running: Promise<void> | undefined;
  const round = async (claimedAtMs: number): Promise<number> => {
    const isTime = clock.monotonicMs() - claimedAtMs >= CLAIM_EVERY_MS;
    const entries = isTime ? await stream.claim() : await stream.read();
    await Promise.all(entries.map((entry) => handle(parts, entry)));
    return isTime ? clock.monotonicMs() : claimedAtMs;
  };
  const run = async () => {
    let claimedAtMs = Number.NEGATIVE_INFINITY;
    let told = "";
    while (!stopped.signal.aborted) {
      try {
        claimedAtMs = await round(claimedAtMs);
        told = "";
      } catch (error) {
        if (stopped.signal.aborted) break;
        if (told !== messageOf(error))
          logger.warn({ problem: messageOf(error) }, "Intake stream trouble; trying again");
        told = messageOf(error);
        await clock.sleep(REST_MS, stopped.signal);
      }
    }
    await stream.leave().catch(() => {});
  };
  return {
    start() {
      running ??= run();
    },
    async stop() {
      stopped.abort();
      await running;
    },
  };
}

/** Hands one entry over and takes it out; leaves it where it is while Redis is away. */
async function handle(parts: StreamReaderParts, entry: IntakeEntry): Promise<void> {
  const { stream, logger } = parts;
  try {
    await becomeSomething(parts, entry);
    await stream.done(entry.id);
  } catch (error) {
    logger.warn(
      { entry: entry.id, problem: messageOf(error) },
      "An intake entry was not handed over; trying again",
    );
    if (error instanceof SubagentError) await stream.keep(entry.id).catch(() => {});
  }
}

/** Whether an entry that met `error` is left for another delivery. */
function mayTryAgain(error: unknown, { id, deliveries }: IntakeEntry, clock: Clock): boolean {
  if (!(error instanceof SubagentError)) return deliveries < INTAKE_DELIVERIES;
  // The first half of an id is Redis' time at its XADD.
  return error.retryable && clock.now() - Number.parseInt(id, 10) < TIMING.maxAgeMs;
}

/** An agent at work, a job that waits for room, or a refusal. Rejects with what may be tried again from the beginning. */
async function becomeSomething(
  { stream, client, quota, logger, clock }: StreamReaderParts,
  entry: IntakeEntry,
): Promise<void> {
  const { id, flat } = entry;
  try {
    const wish = inputOfEntry(flat);
    try {
      await handOver(client, wish, id, quota);
    } catch (error) {
      if (!hasNoRoom(error)) throw error;
      const { intakeQueue } = await internalsOf(client).open();
      const { tenant, parent_id: parentId, agent_id, request_key = jobIdOf(id) } = wish;
      const delayMs = quota.delayMs(ownerOf({ tenant, parentId }, agent_id), 0);
      await intakeQueue.add(jobIdOf(id), { ...wish, request_key }, delayMs);
    }
  } catch (error) {
    if (mayTryAgain(error, entry, clock)) throw error;
    const reason = clip(messageOf(error), REASON_MAX_CHARS);
    logger.warn({ entry: id, problem: reason }, "An intake entry was refused");
    const sender = senderOfEntry(flat);
    if (sender) await tellRefusal(client, sender, id, error);
    else await stream.setAside(id, reason);
  }
}

/** Whether the parent or the agent takes no more for now. */
export function hasNoRoom(error: unknown): error is SubagentError {
  return error instanceof SubagentError && (error.code === "quota_exceeded" || error.code === "inbox_full");
}
