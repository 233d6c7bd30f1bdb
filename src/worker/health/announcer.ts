/**
 * Keeps this worker in the directory of live workers while it runs. The entry is information for people and spawn receipts.
 * It also proves, every few seconds, that Redis accepts writes from this worker.
 */
import type { Clock } from "../../shared/clock.ts";
import { messageOf } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import { WORKER_TTL_MS, type WorkerAnnouncement } from "../../shared/protocol/worker.ts";
import type { WorkerDirectory } from "../../shared/redis/workers.ts";

const ANNOUNCE_EVERY_MS = WORKER_TTL_MS / 10;

/** See the module's header. */
export interface Announcer {
  /** The error with which Redis rejected the newest announcement; undefined if it accepted it. */
  readonly refusal: string | undefined;
  /**
   * Announces now, and again well before the entry expires. Resolves when Redis has answered the first time, even with an
   * error, so that a worker reported as ready is in the directory. Idempotent.
   */
  start(): Promise<void>;
  /** Removes the worker from the directory if Redis answers. Idempotent. */
  stop(): Promise<void>;
}

/** Dependencies of an announcer. `onMissed` is called for each announcement that Redis refuses, or has no time for. */
export interface AnnouncerParts {
  clock: Clock;
  logger: Logger;
  onMissed?: () => void;
}

/** Creates an announcer of `worker`, not started. */
export function createAnnouncer(
  directory: WorkerDirectory,
  worker: Omit<WorkerAnnouncement, "v">,
  { clock, logger, onMissed = () => {} }: AnnouncerParts,
): Announcer {
  let timer: { cancel(): void } | undefined;
  const failed = (error: unknown) => logger.debug({ problem: messageOf(error) }, "Worker not announced");
  let refusal: string | undefined;
  let [isUnderWay, isAgain] = [false, false];
  let first: Promise<void> | undefined;
  const answered = (error?: unknown) => {
    isUnderWay = false;
    refusal = error === undefined ? undefined : messageOf(error);
    isAgain ||= error === undefined;
    if (error === undefined) return;
    failed(error);
    onMissed();
  };
  const announce = async () => {
    timer = clock.timeout(ANNOUNCE_EVERY_MS, announce);
    // One announcement that waits for Redis to return is enough.
    if (isUnderWay) return onMissed();
    isUnderWay = true;
    await directory.announce({ ...worker, now: clock.now() }, { isAgain }).then(() => answered(), answered);
  };
  return {
    get refusal() {
      return refusal;
    },
    start() {
      first ??= announce();
      return first;
    },
    async stop() {
      if (!timer) return;
      timer.cancel();
      timer = undefined;
      await directory.withdraw(worker.id).catch(failed);
    },
  };
}
