/** Keeps this worker in the directory of live workers while it runs. A hint for people and spawn receipts, never awaited. */
import type { Clock } from "../shared/clock.ts";
import { messageOf } from "../shared/errors.ts";
import type { Logger } from "../shared/logger.ts";
import { WORKER_TTL_MS, type WorkerAnnouncement } from "../shared/protocol/worker.ts";
import type { WorkerDirectory } from "../shared/redis/worker-directory.ts";

const ANNOUNCE_EVERY_MS = WORKER_TTL_MS / 3;

/** See the module's sentence. */
export interface Announcer {
  /** Announces now and again well before it is forgotten. Idempotent. */
  start(): void;
  /** Takes the worker out, if Redis answers. Idempotent. */
  stop(): Promise<void>;
}

/** An announcer of `worker`, not started. */
export function createAnnouncer(
  directory: WorkerDirectory,
  worker: Omit<WorkerAnnouncement, "v">,
  { clock, logger }: { clock: Clock; logger: Logger },
): Announcer {
  let timer: { cancel(): void } | undefined;
  const failed = (error: unknown) => logger.debug({ problem: messageOf(error) }, "Worker not announced");
  const announce = () => {
    directory.announce({ ...worker, now: clock.now() }).catch(failed);
    timer = clock.timeout(ANNOUNCE_EVERY_MS, announce);
  };
  return {
    start() {
      if (!timer) announce();
    },
    async stop() {
      if (!timer) return;
      timer.cancel();
      timer = undefined;
      await directory.withdraw(worker.id).catch(failed);
    },
  };
}
