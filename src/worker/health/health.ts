/**
 * Composition of a worker's health: the heartbeats of its connection and its hint channel, the server check, the readiness.
 * Owns the worker's phase; the other modules own what they watch.
 */
import type { Clock } from "../../shared/clock.ts";
import { isDiskFull } from "../../shared/disk.ts";
import type { Logger } from "../../shared/logger.ts";
import type { RedisClient } from "../../shared/redis/connection/connection.ts";
import { startHeartbeat } from "../../shared/redis/connection/heartbeat.ts";
import type { Pause } from "../../shared/redis/pause.ts";
import type { ProviderLimiter } from "../../shared/redis/provider-limiter.ts";
import type { WakeQueue } from "../../shared/redis/wake-queue.ts";
import type { Model } from "../model/model.ts";
import { limiterNameOf } from "../run/provider-limit.ts";
import type { Announcer } from "./announcer.ts";
import { createReadinessWatch, type Readiness, type ReadinessProbe } from "./readiness.ts";
import { createServerWatch } from "./server-watch.ts";
import type { WorkerHints } from "./worker-hints.ts";

/** See the module's header. */
export interface Health {
  /** Waits for a usable server; see `ServerWatch.admit`. */
  admit(): Promise<void>;
  /** Sets the worker's phase: `working` once it takes wakes. */
  enter(phase: "working" | "stopping"): void;
  readiness(): Promise<Readiness>;
  /** Stops watching. Idempotent. */
  stop(): void;
}

/** Parts that are watched. */
export interface HealthOptions {
  redis: RedisClient;
  hints: WorkerHints;
  /** The pool; its troubles are the reasons, in words, why it takes no wakes. */
  pool: { troubles(): string[] };
  announcer: Announcer;
  /** Production mode: a server that may lose accepted work is refused. */
  strict?: boolean | undefined;
  /** Further checks of conditions that may keep the worker from its work. */
  probes: readonly ReadinessProbe[];
  clock: Clock;
  logger: Logger;
}

/** Starts to watch. */
export function openHealth(options: HealthOptions): Health {
  const { redis, hints, pool, announcer, clock, logger, probes } = options;
  const heartbeat = startHeartbeat(redis, clock);
  const server = createServerWatch(redis, { ...options, strict: options.strict ?? false });
  let phase: "starting" | "working" | "stopping" = "starting";
  const readiness = createReadinessWatch({
    idle: () => (phase === "working" ? undefined : `the worker is ${phase}`),
    isRedisAlive: () => heartbeat.isAlive && hints.isAlive,
    refusal: () => server.refusal() ?? hints.refusal(),
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

// Probes for conditions that stop a worker although its Redis is well: an operator's pause, a refused credential, a full disk.

/** Reports not ready while the installation is paused, or only its wake queue, by a tool of BullMQ. */
export function pauseProbe(pause: Pick<Pause, "state">, wakes: Pick<WakeQueue, "isPaused">): ReadinessProbe {
  return async () => {
    const [paused, isQueuePaused] = await Promise.all([pause.state(), wakes.isPaused()]);
    if (!paused) return isQueuePaused ? "the wake queue itself was paused" : undefined;
    return `the installation is paused since ${paused.at}${paused.reason ? `: ${paused.reason}` : ""}`;
  };
}

/** Reports not ready while the provider refuses the credential of `model`; ignores the limiters of other credentials. */
export function credentialProbe(
  limiter: Pick<ProviderLimiter, "list">,
  model: Pick<Model, "limiterName">,
): ReadinessProbe {
  return async () => {
    const ours = await limiter.list(limiterNameOf(model, ""));
    const denied = ours.find(({ state }) => state === "denied");
    return denied && `the provider refuses the credential (${denied.reason}) at ${denied.name}`;
  };
}

/** Reports not ready while the disk of the workspaces is full. Asks once at a time: a network disk may never answer. */
export function diskProbe(workspaceRoot: string): ReadinessProbe {
  let asked: Promise<boolean> | undefined;
  return async () => {
    asked ??= isDiskFull(workspaceRoot).finally(() => {
      asked = undefined;
    });
    return (await asked) ? `the disk of the workspaces (${workspaceRoot}) is full` : undefined;
  };
}
