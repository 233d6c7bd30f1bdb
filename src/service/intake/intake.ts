/**
 * The intake, part of every worker process of the command line: it spawns agents for the requests of programs without this
 * library.
 *
 * Owns: the reader of the intake stream, the worker of the intake queue, and their connections. Its neighbours: the caller
 * owns the client, the pool runs the agents.
 *
 * 1. A request is handed over once, even if a process dies: its request key, or the id of its entry or job, identifies it.
 * 2. A request without room in its parent's quota waits in the queue, at most a day, and does not block others.
 * 3. Every refusal is reported: in the parent's channel, as the job's failure, or, without a parent, in `intakeRefused`, where
 *    the doctor finds it. Each refusal is also logged.
 * 4. After `stop` no request is half done: another process takes the requests that were not handed over.
 * 5. A connection on which Redis no longer answers is dropped, so that requests go on over a new one.
 */
import { hostname } from "node:os";
import type { Client } from "../../producer/client.ts";
import { internalsOf } from "../../producer/client.ts";
import { CLOCK_FORM, type Clock, isClock, systemClock } from "../../shared/clock.ts";
import { createLogger, guardedLogger, isLogger, LOGGER_FORM, type Logger } from "../../shared/logger.ts";
import { type OptionForms, optionProblems, PREFIX, refuseProblems } from "../../shared/options.ts";
import { newRequestKey } from "../../shared/protocol/ids.ts";
import { closeRedis, openRedis, type RedisClient } from "../../shared/redis/connection/connection.ts";
import { type Heartbeat, startHeartbeat } from "../../shared/redis/connection/heartbeat.ts";
import { openInstallation } from "../../shared/redis/installation.ts";
import { type IntakeJobs, openIntakeJobs } from "../../shared/redis/intake-jobs.ts";
import { createIntakeStream } from "../../shared/redis/intake-stream.ts";
import { parseRedisUrl } from "../../shared/redis-url.ts";
import { createCancellable } from "../../shared/start-stop.ts";
import { createJobTaker, type JobTaker } from "./jobs.ts";
import { createIntakeQuota } from "./quota.ts";
import { createStreamReader, type StreamReader } from "./stream.ts";

/** Maximum time that a stopping process takes to give back its entries and jobs, ms. */
const LEAVES_WITHIN_MS = 5_000;

/** Options of an intake. */
export interface IntakeOptions {
  /** URL of Redis, as for a worker. */
  redisUrl: string;
  /** Prefix of all keys, default `saq`. */
  prefix?: string | undefined;
  /** The client that spawns the agents; its model, limits and prices apply to all requests. Its owner stops it. */
  client: Client;
  /** Default: as for a worker. */
  logger?: Logger;
  clock?: Clock;
}

const FORMS: OptionForms<IntakeOptions> = {
  redisUrl: [(value) => typeof value === "string", "the address of a Redis, e.g. redis://127.0.0.1:6379"],
  prefix: PREFIX,
  client: [() => true, "a client"],
  logger: [isLogger, LOGGER_FORM],
  clock: [isClock, CLOCK_FORM],
};
const REQUIRED: ReadonlySet<string> = new Set(["redisUrl"]);

/** See the module's header. */
export interface Intake {
  /**
   * Connects and begins to take requests; waits for Redis without a limit. During a stop it begins after that. Rejects with `closed`
   * if it is stopped meanwhile. Idempotent.
   */
  start(): Promise<void>;
  /** Stops taking requests, leaves waiting ones to other processes, and closes everything. Idempotent; can be started again. */
  stop(): Promise<void>;
}

interface Opened {
  redis: RedisClient;
  blocking: RedisClient;
  heartbeats: readonly Heartbeat[];
  reader: StreamReader;
  taker: JobTaker;
  jobs: IntakeJobs;
  clock: Clock;
}

/** Creates an intake, not started. Throws `invalid_config` for an invalid client, or with all other wrong options. */
export function createIntake(options: IntakeOptions): Intake {
  internalsOf(options?.client);
  refuseProblems("The intake", optionProblems(options, FORMS, { maker: "an intake", required: REQUIRED }));
  parseRedisUrl(options.redisUrl);
  const { start, stop } = createCancellable("The intake", {
    open: () => open(options),
    begin: (opened) => begin(opened, options.client),
    end,
  });
  return { start, stop };
}

function open({ redisUrl, prefix, client, clock = systemClock, ...more }: IntakeOptions): Opened {
  const logger = guardedLogger(more.logger ?? createLogger());
  const redis = openRedis(redisUrl, "worker", logger, clock);
  const { keys } = openInstallation(redis, { prefix });
  const blocking = openRedis(redisUrl, "worker", logger, clock);
  const consumer = `${hostname()}-${newRequestKey().slice(0, 8)}`;
  const stream = createIntakeStream(redis, blocking, keys, { consumer, logger });
  const quota = createIntakeQuota(client, clock, logger);
  const taker = createJobTaker({ client, quota, logger });
  return {
    redis,
    blocking,
    heartbeats: [redis, blocking].map((each) => startHeartbeat(each, clock)),
    taker,
    clock,
    reader: createStreamReader({ stream, client, quota, logger, clock }),
    jobs: openIntakeJobs(redis, keys, { take: taker.take, clock, logger }),
  };
}

async function begin({ reader, jobs }: Opened, client: Client): Promise<void> {
  // It loads code. Loaded at the first request, it would be missing where the package's files have been replaced meanwhile.
  await internalsOf(client).open();
  // After a stop neither takes anything.
  reader.start();
  await jobs.start();
}

async function end({ redis, blocking, heartbeats, reader, taker, jobs, clock }: Opened): Promise<void> {
  // The reader waits in a blocking command; closing its connection ends the command.
  closeRedis(blocking);
  taker.leaveAll();
  const ended = Promise.allSettled([reader.stop(), jobs.stop()]);
  // Without Redis nothing can be given back: other processes claim the entries, and the jobs' locks expire.
  const withinMs = redis.status === "ready" ? LEAVES_WITHIN_MS : 0;
  const over = new AbortController();
  await Promise.race([ended, clock.sleep(withinMs, over.signal)]);
  over.abort();
  for (const heartbeat of heartbeats) heartbeat.stop();
  closeRedis(redis);
}
