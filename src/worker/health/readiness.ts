/**
 * Decides whether a worker takes wakes now, and if not, why, for routers, supervisors and alerts.
 *
 * Owns the result and the time of its last change. Other modules report their state; this one sends nothing to Redis.
 *
 * 1. Redis counts as `ready` only while it answers over every connection of the worker.
 * 2. An answer never waits longer than {@link PROBE_MS}: a probe that is late is a reason of its own.
 */
import type { Clock } from "../../shared/clock.ts";
import { messageOf } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";

/** State of a worker. */
export interface Readiness {
  /** True if the worker takes wakes and can do its work. */
  ready: boolean;
  /** `away`: Redis does not answer over some connection of the worker, or refuses it. */
  redis: "ready" | "away";
  /** Time of the last change of `ready`, ISO 8601; absent before the worker's start. */
  since?: string;
  /** Reasons, for people, why it is not ready; empty if it is. */
  reasons: string[];
}

/** Resolves to why the worker cannot work, or undefined. May query Redis; called only while that answers. */
export type ReadinessProbe = () => Promise<string | undefined>;

/** Sources of the result. */
export interface ReadinessSources {
  /** Returns why the worker is not expected to be ready: not started, or stopping. */
  idle(): string | undefined;
  /** Checks whether Redis answered a moment ago, over every connection. */
  isRedisAlive(): boolean;
  /** How Redis refuses the connection, as long as it does. */
  refusal(): string | undefined;
  /** Problems of the server, as the recent checks found them. */
  server(): readonly string[];
  /** Other problems, while the server is well. */
  others(): readonly string[];
  probes: readonly ReadinessProbe[];
  clock: Clock;
  logger: Logger;
}

/** See the module's header. */
export interface ReadinessWatch {
  now(): Promise<Readiness>;
  /** Begins to check for changes regularly, and to log them. Idempotent. */
  start(): void;
  /** Idempotent. */
  stop(): void;
}

const POLL_EVERY_MS = 2_000;
const PROBE_MS = 1_000;

/** Creates a watch, not started. */
export function createReadinessWatch(sources: ReadinessSources): ReadinessWatch {
  const { clock, logger } = sources;
  let known: { ready: boolean; since: string } | undefined;
  let hasBeenReady = false;
  let timer: { cancel(): void } | undefined;

  const readNow = async (): Promise<Readiness> => {
    const idle = sources.idle();
    const server = sources.server();
    // While connections search for a writable server they reopen often: a recent check of the server counts as an answer.
    const answers = sources.isRedisAlive() || server.length > 0;
    const reasons = [...(idle === undefined ? [] : [idle]), ...server];
    if (!answers) reasons.push(sources.refusal() ?? "Redis does not answer");
    if (reasons.length === 0) reasons.push(...sources.others(), ...(await askAll(sources)));
    const ready = reasons.length === 0;
    if (known?.ready !== ready) {
      if (hasBeenReady && idle === undefined) {
        if (ready) logger.info({ reasons }, "Ready again");
        else logger.warn({ reasons }, "Not ready");
      }
      known = { ready, since: new Date(clock.now()).toISOString() };
      hasBeenReady ||= ready;
    }
    return { ready, redis: answers ? "ready" : "away", since: known.since, reasons };
  };
  const poll = () => {
    void readNow();
    timer = clock.timeout(POLL_EVERY_MS, poll);
  };
  return {
    now: readNow,
    start() {
      if (!timer) poll();
    },
    stop() {
      timer?.cancel();
      timer = undefined;
    },
  };
}

async function askAll({ probes, clock }: ReadinessSources): Promise<string[]> {
  const late = new AbortController();
  const timeUp = clock.sleep(PROBE_MS, late.signal).then(() => "a check does not answer");
  const answers = await Promise.all(
    probes.map((probe) =>
      Promise.race([probe().catch((error: unknown) => `a check failed: ${messageOf(error)}`), timeUp]),
    ),
  );
  late.abort();
  return [...new Set(answers.filter((answer) => answer !== undefined))];
}
