/**
 * Reads the entries of the intake stream and hands them over; see `intake.ts`.
 *
 * 1. An entry that could not be handed over because Redis was unavailable stays in the stream and is claimed again, at most a
 *    day.
 * 2. An entry that fails with an unexpected error is tried {@link INTAKE_DELIVERIES} times; then it is refused.
 *
 * The entries of one read are handed over in parallel; the next read begins when all of them are handled.
 */
import { type Client, internalsOf } from "../../producer/client.ts";
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import { problemLog } from "../../shared/problem-log.ts";
import { TIMING } from "../../shared/protocol/limits.ts";
import { clip } from "../../shared/protocol/text.ts";
import { INTAKE_DELIVERIES, type IntakeEntry, type IntakeStream } from "../../shared/redis/intake-stream.ts";
import { redisNowMs } from "../../shared/redis/redis-time.ts";
import { inputOfEntry, senderOfEntry } from "./input.ts";
import { type IntakeQuota, ownerOf } from "./quota.ts";
import { handOver, jobIdOf, tellRefusal } from "./spawn.ts";

/** Interval at which entries that were read but not handled are claimed, ms. */
const CLAIM_EVERY_MS = 5_000;
/** Time spent on reading entries after which the runs of this process have a turn, ms. */
const TURN_MS = 5;
/** Delay after a failure of Redis. */
const RETRY_MS = 1_000;
const REASON_MAX_CHARS = 500;

/** See the module's header. */
export interface StreamReader {
  /** Reads until `stop`. Idempotent. */
  start(): void;
  /** Resolves when all entries are handled. A blocking read ends only when the caller closes its connection. Idempotent. */
  stop(): Promise<void>;
}

/** Dependencies of a reader. */
export interface StreamReaderParts {
  stream: IntakeStream;
  client: Client;
  quota: IntakeQuota;
  logger: Logger;
  clock: Clock;
}

/** Creates a reader, not started. */
export function createStreamReader(parts: StreamReaderParts): StreamReader {
  const { stream, logger, clock } = parts;
  const stopped = new AbortController();
  let running: Promise<void> | undefined;
  const round = async (claimedAtMs: number): Promise<number> => {
    const isTime = clock.monotonicMs() - claimedAtMs >= CLAIM_EVERY_MS;
    const entries = isTime ? await stream.claim() : await stream.read();
    const handled: Promise<void>[] = [];
    let sinceMs = clock.monotonicMs();
    for (const entry of entries) {
      handled.push(handle(parts, entry));
      // To read an entry may take the thread tens of ms. The commands of those of one turn leave in one write.
      if (clock.monotonicMs() - sinceMs < TURN_MS) continue;
      await new Promise(setImmediate);
      sinceMs = clock.monotonicMs();
    }
    await Promise.all(handled);
    return isTime ? clock.monotonicMs() : claimedAtMs;
  };
  const run = async () => {
    let claimedAtMs = Number.NEGATIVE_INFINITY;
    const trouble = problemLog(logger, "Intake stream trouble; trying again");
    while (!stopped.signal.aborted) {
      try {
        claimedAtMs = await round(claimedAtMs);
        trouble.over();
      } catch (error) {
        if (stopped.signal.aborted) break;
        trouble.tell(messageOf(error));
        await clock.sleep(RETRY_MS, stopped.signal);
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

/** Hands one entry over and removes it; leaves it in the stream if the hand-over fails and may be retried. */
async function handle(parts: StreamReaderParts, entry: IntakeEntry): Promise<void> {
  const { stream, logger } = parts;
  try {
    await processEntry(parts, entry);
    await stream.done(entry.id);
  } catch (error) {
    logger.warn(
      { entry: entry.id, problem: messageOf(error) },
      "An intake entry was not handed over; trying again",
    );
    if (error instanceof SubagentError) await stream.keep(entry.id).catch(() => {});
  }
}

/** Returns whether an entry that failed with `error` is left for another delivery. Rejects with `redis_unavailable`. */
async function mayTryAgain(
  client: Client,
  error: unknown,
  { id, deliveries }: IntakeEntry,
): Promise<boolean> {
  if (!(error instanceof SubagentError)) return deliveries < INTAKE_DELIVERIES;
  // The first half of an id is Redis' time of its XADD.
  return error.retryable && (await redisTime(client)) - Number.parseInt(id, 10) < TIMING.maxAgeMs;
}

/** Turns an entry into a running agent, a job that waits for room, or a refusal. Rejects with an error that may be retried. */
async function processEntry(
  { stream, client, quota, logger }: StreamReaderParts,
  entry: IntakeEntry,
): Promise<void> {
  const { id, flat } = entry;
  try {
    const request = inputOfEntry(flat);
    try {
      await handOver(client, request, id, quota);
    } catch (error) {
      if (!hasNoRoom(error)) throw error;
      const { intakeQueue } = await internalsOf(client).open();
      const { tenant, parent_id: parentId, agent_id, request_key = jobIdOf(id) } = request;
      const delayMs = quota.delayMs(ownerOf({ tenant, parentId }, agent_id), 0);
      await intakeQueue.add(jobIdOf(id), { ...request, request_key }, delayMs);
    }
  } catch (error) {
    if (await mayTryAgain(client, error, entry)) throw error;
    const reason = clip(messageOf(error), REASON_MAX_CHARS);
    logger.warn({ entry: id, problem: reason }, "An intake entry was refused");
    const sender = senderOfEntry(flat);
    if (sender) await tellRefusal(client, sender, id, error);
    else await stream.setAside(id, reason);
  }
}

/** Returns whether the parent's quota or the agent's inbox is full. */
export function hasNoRoom(error: unknown): error is SubagentError {
  return error instanceof SubagentError && (error.code === "quota_exceeded" || error.code === "inbox_full");
}

/** Reads Redis' time, epoch ms. Rejects with `redis_unavailable`. */
export async function redisTime(client: Client): Promise<number> {
  const { read, redis } = await internalsOf(client).open();
  return read(() => redisNowMs(redis));
}
