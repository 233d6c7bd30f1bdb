/**
 * Checks the Redis server: before a worker takes anything, after every reconnection (a failover may bring another server),
 * and every few seconds.
 *
 * 1. A server that must not be used keeps the worker from starting; nothing has been taken or written by then.
 * 2. Later it never ends the worker: a problem is logged once, and is in `reasons` as long as it lasts.
 */
import type { Clock } from "../../shared/clock.ts";
import { messageOf, type SubagentError } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import { type RedisClient, whenAccepted } from "../../shared/redis/connection/connection.ts";
import { checkServers, refusalOf, type ServersReport } from "../../shared/redis/connection/server-check.ts";

const POLL_EVERY_MS = 5_000;
/** Time for which the result of a check is valid. */
const FRESH_MS = 2 * POLL_EVERY_MS;
const TRY_AGAIN_MS = 1_000;

/** See the module's header. */
export interface ServerWatch {
  /**
   * Waits, without a time limit, for a server that accepts writes. Rejects with `invalid_config` if the server must not be
   * used, with `closed` if the connection is closed.
   */
  admit(): Promise<void>;
  /** Reasons why the server accepts no work or must not get any; empty if all is well, or if no check succeeded lately. */
  reasons(): readonly string[];
  /** Stops checking. Idempotent. */
  stop(): void;
}

interface WatchOptions {
  clock: Clock;
  logger: Logger;
  /** Production mode: refuses a server that may lose accepted work. */
  strict: boolean;
}

/** Creates a watch that has not checked yet. */
export function createServerWatch(redis: RedisClient, options: WatchOptions): ServerWatch {
  const { clock, logger } = options;
  const { look, seen } = createLook(redis, options);
  const stopping = new AbortController();
  let timer: { cancel(): void } | undefined;
  let looking = false;

  const lookAgain = async () => {
    timer?.cancel();
    // Redis never answers a command sent during a handshake that fails.
    if (stopping.signal.aborted || looking || redis.status !== "ready") return;
    looking = true;
    // The heartbeat reports a server that does not answer.
    await look().catch((error: unknown) =>
      logger.debug({ problem: messageOf(error) }, "Redis was not checked"),
    );
    looking = false;
    const nextMs = seen().reasons.length > 0 ? TRY_AGAIN_MS : POLL_EVERY_MS;
    if (!stopping.signal.aborted) timer = clock.timeout(nextMs, lookAgain);
  };
  return {
    async admit() {
      for (let attempt = 0; ; attempt++) {
        await whenAccepted(redis);
        const report = await look().catch(() => undefined);
        const { refusal } = seen();
        if (refusal) throw refusal;
        if (report && report.role !== "replica") {
          warnOf(report, logger);
          redis.on("ready", lookAgain);
          timer = clock.timeout(POLL_EVERY_MS, lookAgain);
          return;
        }
        if (report && attempt === 0)
          logger.warn({ reasons: report.troubles }, "Waiting for a Redis that takes writes");
        await clock.sleep(TRY_AGAIN_MS, stopping.signal);
      }
    },
    reasons: () => (clock.monotonicMs() - seen().atMs < FRESH_MS ? seen().reasons : []),
    stop() {
      stopping.abort();
      timer?.cancel();
      redis.off("ready", lookAgain);
    },
  };
}

interface Seen {
  atMs: number;
  refusal: SubagentError | undefined;
  reasons: readonly string[];
}

/** Checks the server and keeps the last result; logs unacceptable settings when they are first seen. */
function createLook(redis: RedisClient, { clock, logger, strict }: WatchOptions) {
  let last: Seen = { atMs: Number.NEGATIVE_INFINITY, refusal: undefined, reasons: [] };
  const look = async (): Promise<ServersReport> => {
    const report = await checkServers(redis);
    const refusal = refusalOf(report, strict);
    if (refusal && refusal.message !== last.refusal?.message) {
      logger.error({ problems: refusal.details.server }, "Redis must not be used as it is set");
    }
    const reasons = [...report.troubles, ...(refusal ? [refusal.message] : [])];
    last = { atMs: clock.monotonicMs(), refusal, reasons };
    return report;
  };
  return { look, seen: () => last };
}

/** Logs one line about all problems. */
function warnOf({ problems }: ServersReport, logger: Logger): void {
  if (problems.length === 0) return;
  const sentences = problems.map(({ sentence }) => sentence);
  logger.warn({ problems: sentences }, "Redis is not set as production needs it");
}
