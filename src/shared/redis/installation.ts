/**
 * An installation as one process sees it: every part of the protocol, composed over one connection,
 * which the caller owns.
 */
import type { Logger } from "../logger.ts";
import { type Keys, keysUnder } from "../protocol/keys.ts";
import { TIMING, type Timing } from "../protocol/limits.ts";
import { type AgentStore, createAgentStore } from "./agent-store.ts";
import { databaseOf, type RedisClient } from "./connection/connection.ts";
import { createDeadlineSet, type DeadlineSet } from "./deadlines.ts";
import { createIntakeQueue, type IntakeQueue } from "./intake-queue.ts";
import { createPause, type SteppedPause } from "./pause.ts";
import { createReplyStream, type ReplyStream } from "./replies.ts";
import { createWakeQueue, type WakeQueue } from "./wake-queue.ts";
import { createWorkerDirectory, type WorkerDirectory } from "./workers.ts";

/** See the module's header. */
export interface Installation {
  readonly redis: RedisClient;
  readonly keys: Keys;
  readonly timing: Timing;
  readonly store: AgentStore;
  readonly deadlines: DeadlineSet;
  readonly wakes: WakeQueue;
  readonly intakeQueue: IntakeQueue;
  readonly replies: ReplyStream;
  readonly workers: WorkerDirectory;
  readonly pause: SteppedPause;
}

/** Setup of an installation; all its processes use the same prefix and timing. */
export interface InstallationOptions {
  /** Prefix of all keys, default `saq`. */
  prefix?: string | undefined;
  timing?: Timing | undefined;
  logger?: Logger | undefined;
}

/** Returns the installation on `redis`. The caller must call `wakes.stop()` and `intakeQueue.stop()`. */
export function openInstallation(
  redis: RedisClient,
  { prefix, timing = TIMING, logger }: InstallationOptions = {},
): Installation {
  const keys = keysUnder(prefix, databaseOf(redis));
  return {
    redis,
    keys,
    timing,
    store: createAgentStore(redis, keys, timing),
    deadlines: createDeadlineSet(redis, keys, timing),
    wakes: createWakeQueue(redis, keys, logger),
    intakeQueue: createIntakeQueue(redis, keys),
    replies: createReplyStream(redis, keys, timing, logger),
    workers: createWorkerDirectory(redis, keys),
    pause: createPause(redis, keys),
  };
}
