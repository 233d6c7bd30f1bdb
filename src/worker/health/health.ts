/**
 * A worker's health, composed: the heartbeat of its connection and of its hint line, the look at the server, the judgement.
 * Owns the phase the worker is in; its neighbours own what they watch.
 */
import type { Clock } from "../../shared/clock.ts";
import type { Logger } from "../../shared/logger.ts";
import type { RedisClient } from "../../shared/redis/connection/connection.ts";
import { startHeartbeat } from "../../shared/redis/connection/heartbeat.ts";
import type { Pause } from "../../shared/redis/pause.ts";
import type { ProviderLimiter } from "../../shared/redis/provider-limiter.ts";
import type { Model } from "../model/model.ts";
import { limiterNameOf } from "../run/provider-limit.ts";
import type { Announcer } from "./announcer.ts";
import { createReadinessWatch, type Readiness, type ReadinessProbe } from "./readiness.ts";
import { createServerWatch } from "./server-watch.ts";
import type { WorkerHints } from "./worker-hints.ts";

/** See the module's header. */
export interface Health {
  /** Waits for a server that may be used; see `ServerWatch.admit`. */
  admit(): Promise<void>;
  /** Says what the worker is doing: `working` once it takes wakes. */
  enter(phase: "working" | "stopping"): void;
  readiness(): Promise<Readiness>;
  /** Watches no more. Idempotent. */
  stop(): void;
}

/** What is watched. */
export interface HealthOptions {
  redis: RedisClient;
  hints: WorkerHints;
  /** Which wakes are taken: what keeps the worker from taking any, in words. */
  pool: { troubles(): string[] };
  announcer: Announcer;
  /** Production mode: a server that may lose accepted work is refused. */
  strict?: boolean | undefined;
  /** What else may keep the worker from its work. */
  probes: readonly ReadinessProbe[];
  clock: Clock;
  logger: Logger;
}

/** Begins to watch. */
export function openHealth(options: HealthOptions): Health {
  const { redis, hints, pool, announcer, clock, logger, probes } = options;
  const heartbeat = startHeartbeat(redis, clock);
  const server = createServerWatch(redis, { ...options, strict: options.strict ?? false });
  let phase: "starting" | "working" | "stopping" = "starting";
  const readiness = createReadinessWatch({
    idle: () => (phase === "working" ? undefined : `the worker is ${phase}`),
    isRedisAlive: () => heartbeat.isAlive && hints.isAlive,
    server: () => server.reasons(),
    others: () => {
      const { refusal } = announcer;
      return [...(refusal === undefined ? [] : [`Redis refuses writes (${refusal})`]), ...pool.troubles()];
    },
    probes,
    clock,
    logger,
  });
  readiness.start();
  return {
    admit: () => server.admit(),
    enter(next) {
      phase = next;
    },
    readiness: () => readiness.now(),
    stop() {
      readiness.stop();
      server.stop();
      heartbeat.stop();
    },
  };
}

// What may keep a worker from its work although its Redis is well: an operator's pause, and a credential that is refused.

/** Not ready while the installation is paused. */
export function pauseProbe(pause: Pick<Pause, "state">): ReadinessProbe {
  return async () => {
    const paused = await pause.state();
    if (!paused) return undefined;
    return `the installation is paused since ${paused.at}${paused.reason ? `: ${paused.reason}` : ""}`;
  };
}

/** Not ready while the provider refuses the credential of `model`; other credentials' limiters say nothing about this worker. */
export function credentialProbe(
  limiter: Pick<ProviderLimiter, "list">,
  model: Pick<Model, "limiterName">,
): ReadinessProbe {
  return async () => {
    const ours = limiterNameOf(model, "");
    const denied = (await limiter.list()).find(
      ({ name, state }) => state === "denied" && name.startsWith(ours),
    );
    return denied && `the provider refuses the credential (${denied.reason}) at ${denied.name}`;
  };
}
