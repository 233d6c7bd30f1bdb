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
import { type RedisClient, refusalOf, whenAccepted } from "../../shared/redis/connection/connection.ts";
import {
  checkServers,
  type ServersReport,
  serverRefusal,
} from "../../shared/redis/connection/server-check.ts";

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
  /** How the server refuses the password or database of the connection, as long as it does. */
  refusal(): string | undefined;
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
  const { check, last } = createCheck(redis, options);
  const stopping = new AbortController();
  let timer: { cancel(): void } | undefined;
  let isChecking = false;
  const refused = watchRefusal(redis);

  const poll = async () => {
    timer?.cancel();
    // Redis never answers a command sent during a handshake that fails.
    if (stopping.signal.aborted || isChecking || redis.status !== "ready") return;
    isChecking = true;
    // The heartbeat reports a server that does not answer.
    await check().catch((error: unknown) =>
      logger.debug({ problem: messageOf(error) }, "Redis was not checked"),
    );
    isChecking = false;
    const nextMs = last().reasons.length > 0 ? TRY_AGAIN_MS : POLL_EVERY_MS;
    if (!stopping.signal.aborted) timer = clock.timeout(nextMs, poll);
  };
  return {
    async admit() {
      for (let attempt = 0; ; attempt++) {
        await whenAccepted(redis);
        const report = await check().catch(() => undefined);
        const { refusal } = last();
        if (refusal) throw refusal;
        if (report && report.role !== "replica") {
          warnOf(report, logger);
          redis.on("ready", poll);
          timer = clock.timeout(POLL_EVERY_MS, poll);
          return;
        }
        if (report && attempt === 0)
          logger.warn({ reasons: report.troubles }, "Waiting for a Redis that takes writes");
        await clock.sleep(TRY_AGAIN_MS, stopping.signal);
      }
    },
    reasons: () => (clock.monotonicMs() - last().atMs < FRESH_MS ? last().reasons : []),
    refusal: () => refused.reason,
    stop() {
      stopping.abort();
      timer?.cancel();
      refused.stop();
      redis.off("ready", poll);
    },
  };
}

/** Keeps how the server refuses the connection, from the attempt that it refused until the next one. */
function watchRefusal(redis: RedisClient) {
  const onError = (error: Error) => {
    refused.reason = refusalOf(error)?.message;
  };
  const onReady = () => {
    refused.reason = undefined;
  };
  const refused = {
    reason: undefined as string | undefined,
    stop: () => void redis.off("error", onError).off("ready", onReady),
  };
  redis.on("error", onError).on("ready", onReady);
  return refused;
}

interface CheckResult {
  atMs: number;
  refusal: SubagentError | undefined;
  reasons: readonly string[];
}

/** Checks the server and keeps the last result; logs unacceptable settings when they are first seen. */
function createCheck(redis: RedisClient, { clock, logger, strict }: WatchOptions) {
  let last: CheckResult = { atMs: Number.NEGATIVE_INFINITY, refusal: undefined, reasons: [] };
  const check = async (): Promise<ServersReport> => {
    const report = await checkServers(redis);
    const refusal = serverRefusal(report, strict);
    if (refusal && refusal.message !== last.refusal?.message) {
      logger.error({ problems: refusal.details.server }, "Redis must not be used as it is set");
    }
    const reasons = [...report.troubles, ...(refusal ? [refusal.message] : [])];
    last = { atMs: clock.monotonicMs(), refusal, reasons };
    return report;
  };
  return { check, last: () => last };
}

/** Logs one line about all problems. */
function warnOf({ problems }: ServersReport, logger: Logger): void {
  if (problems.length === 0) return;
  const sentences = problems.map(({ sentence }) => sentence);
  logger.warn({ problems: sentences }, "Redis is not set as production needs it");
}
