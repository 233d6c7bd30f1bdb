/**
 * Whether a worker takes wakes now, and if not, why: the truth for those who route, restart and alert.
 *
 * Owns: the judgement and since when it stands. Its neighbours say how they are; nothing here asks Redis.
 *
 * 1. Redis counts as `ready` only while it answers over every connection of the worker.
 * 2. An answer never waits longer than {@link PROBE_MS}: a probe that is late is a reason of its own.
 */
import type { Clock } from "../../shared/clock.ts";
import { messageOf } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";

/** How a worker is. */
export interface Readiness {
  /** Whether it takes wakes and can do its work. */
  ready: boolean;
  /** `away`: Redis does not answer over some connection of the worker. */
  redis: "ready" | "away";
  /** Since when it is, or is not, ready, ISO 8601; absent before its start. */
  since?: string;
  /** Why it is not ready, for people; empty when it is. */
  reasons: string[];
}

/** Says why the worker cannot do its work, or undefined. May ask Redis; asked only while that answers. */
export type ReadinessProbe = () => Promise<string | undefined>;

/** What a judgement is made from. */
export interface ReadinessSources {
  /** Why there is nothing to judge yet or any more: not started, stopping. */
  idle(): string | undefined;
  /** Whether Redis answered a moment ago, over every connection. */
  isRedisAlive(): boolean;
  /** What speaks against the server, as far as it was seen lately. */
  server(): readonly string[];
  /** What else speaks against it, while the server is well. */
  others(): readonly string[];
  probes: readonly ReadinessProbe[];
  clock: Clock;
  logger: Logger;
}

/** See the module's header. */
export interface ReadinessWatch {
  now(): Promise<Readiness>;
  /** Begins to note when the judgement changes, and to log it. Idempotent. */
  start(): void;
  /** Idempotent. */
  stop(): void;
}

const LOOK_EVERY_MS = 2_000;
const PROBE_MS = 1_000;

/** A watch, not started. */
export function createReadinessWatch(sources: ReadinessSources): ReadinessWatch {
  const { clock, logger } = sources;
  let known: { ready: boolean; since: string } | undefined;
  let hasBeenReady = false;
  let timer: { cancel(): void } | undefined;

  const judge = async (): Promise<Readiness> => {
    const idle = sources.idle();
    const server = sources.server();
    // Connections that look for a server that takes writes come and go: what was seen says more than their silence.
    const answers = sources.isRedisAlive() || server.length > 0;
    const reasons = [...(idle === undefined ? [] : [idle]), ...server];
    if (!answers) reasons.push("Redis does not answer");
    if (reasons.length === 0) reasons.push(...sources.others(), ...(await askAll(sources)));
    const ready = reasons.length === 0;
    if (known?.ready !== ready) {
      if (hasBeenReady && idle === undefined) logger.warn({ reasons }, ready ? "Ready again" : "Not ready");
      known = { ready, since: new Date(clock.now()).toISOString() };
      hasBeenReady ||= ready;
    }
    return { ready, redis: answers ? "ready" : "away", since: known.since, reasons };
  };
  const look = () => {
    void judge();
    timer = clock.timeout(LOOK_EVERY_MS, look);
  };
  return {
    now: judge,
    start() {
      if (!timer) look();
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
