/**
 * The subscription on which a worker receives hints: that one of its runs must stop at once, e.g. because a parent destroyed
 * the agent, or that a provider's limit has changed.
 *
 * Owns the subscriber connection, and decides when runs are checked because a hint may have been missed. `lease.ts` does the
 * check. Redis' answer decides; a hint only says that a check is worthwhile.
 *
 * 1. As soon as the subscription is back, every run is checked: a hint may have been sent while it was down.
 * 2. While it is down, all runs are checked twice a second if the worker's own connection is ready. More than fifty are checked less
 *    often, a hundred a second, because many checks keep Redis busy; but each run as often as its lease is renewed. A subscription
 *    that Redis refuses for a while is tried again as often.
 * 3. A connection on which Redis no longer answers is replaced by a new one (`heartbeat.ts`).
 */
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import { TIMING } from "../../shared/protocol/limits.ts";
import {
  closeRedis,
  GIVE_RIGHTS,
  type RedisClient,
  whenAccepted,
} from "../../shared/redis/connection/connection.ts";
import { startHeartbeat } from "../../shared/redis/connection/heartbeat.ts";
import type { LeaseKeeper } from "../run/lease.ts";

/** Shortest time between two checks of all runs. */
const DISCONNECTED_CHECK_MS = 500;
/** Time that each run adds to it where there are many: a check costs Redis some 0.1 ms. */
const CHECK_OF_RUN_MS = 10;
/** Prefix of a hint about a provider's limiter; every other hint is the uid of an agent. */
const LIMITER_HINT = "limiter ";

/** Returns the hint about the limiter `name`. */
export function limiterHint(name: string): string {
  return LIMITER_HINT + name;
}

/** See the module's header. */
export interface WorkerHints {
  /**
   * Resolves when hints are received; waits for Redis without a time limit. Rejects if stopped meanwhile, and with
   * `invalid_config` if the Redis user may not subscribe.
   */
  start(): Promise<void>;
  /** True if hints are received: Redis answered on this connection a moment ago. */
  readonly isAlive: boolean;
  /** Returns how Redis refuses the subscription, though it answers; undefined if it does not. */
  refusal(): string | undefined;
  /** Closes the connection. Idempotent. */
  stop(): void;
}

/** Options of {@link createWorkerHints}. */
export interface WorkerHintsOptions {
  /** A subscriber connection for hints only; closed by `stop`. */
  redis: RedisClient;
  channel: string;
  /** The leases of this process' runs. */
  leases: LeaseKeeper;
  /** Called when another process has changed the state of a provider's limiter. */
  onLimiter(name: string): void;
  /** Checks whether the connection that checks runs is usable now. */
  canAsk(): boolean;
  clock: Clock;
}

/** Creates a subscription on `redis`, not started. */
export function createWorkerHints(options: WorkerHintsOptions): WorkerHints {
  const { redis, channel, leases, canAsk, clock } = options;
  const heartbeat = startHeartbeat(redis, clock);
  let timer: { cancel(): void } | undefined;
  const subscription = new Subscription(redis, channel);
  let stopped = false;

  const askAboutAll = () => {
    if (canAsk()) for (const lease of leases.held.values()) void lease.renew();
  };
  const listen = async () => {
    await subscription.begin();
    timer?.cancel();
    askAboutAll();
  };
  const subscribe = () => void listen().catch(() => {});
  const checkWhileDisconnected = () => {
    timer?.cancel();
    if (subscription.isHeld || stopped) return;
    // A lease is renewed that often in any case, and a check renews it.
    const pauseMs = Math.min(TIMING.renewMs, leases.held.size * CHECK_OF_RUN_MS);
    timer = clock.timeout(Math.max(DISCONNECTED_CHECK_MS, pauseMs), () => {
      if (redis.status === "ready") subscribe();
      checkWhileDisconnected();
    });
    askAboutAll();
  };
  redis.on("message", (_channel: string, hint: string) => applyHint(hint, options));
  redis.on("ready", subscribe);
  redis.on("close", () => {
    subscription.lose();
    checkWhileDisconnected();
  });
  return {
    async start() {
      // Redis never confirms a subscription sent during a handshake that fails.
      await whenAccepted(redis);
      await untilTaken(listen, clock);
    },
    get isAlive() {
      return subscription.isHeld && heartbeat.isAlive;
    },
    refusal: () => subscription.refusal,
    stop() {
      stopped = true;
      heartbeat.stop();
      closeRedis(redis);
    },
  };
}

/** Calls `listen` until Redis takes the subscription: while a script keeps it busy, it refuses what it will take. */
async function untilTaken(listen: () => Promise<void>, clock: Clock): Promise<void> {
  for (;;) {
    try {
      return await listen();
    } catch (error) {
      if (!messageOf(error).startsWith("BUSY ")) throw error;
    }
    await clock.sleep(DISCONNECTED_CHECK_MS);
  }
}

function applyHint(hint: string, { leases, onLimiter }: WorkerHintsOptions): void {
  if (hint.startsWith(LIMITER_HINT)) onLimiter(hint.slice(LIMITER_HINT.length));
  else leases.askAbout(hint);
}

/** The subscription of one connection to one channel. */
class Subscription {
  isHeld = false;
  /** How Redis refused it on the connection that is open. */
  refusal: string | undefined;
  readonly #redis: RedisClient;
  readonly #channel: string;

  constructor(redis: RedisClient, channel: string) {
    this.#redis = redis;
    this.#channel = channel;
  }

  async begin(): Promise<void> {
    try {
      await this.#redis.subscribe(this.#channel);
    } catch (error) {
      const named = namingChannel(this.#channel, error);
      // The end of the connection refuses nothing.
      if (this.#redis.status === "ready") this.refusal = messageOf(named);
      throw named;
    }
    this.isHeld = true;
    this.refusal = undefined;
  }

  /** Notes that the connection has ended. */
  lose(): void {
    this.isHeld = false;
    this.refusal = undefined;
  }
}

/** Adds the channel's name to Redis' error, which does not have it. */
function namingChannel(channel: string, error: unknown): unknown {
  const problem = messageOf(error);
  if (!problem.startsWith("NOPERM ")) return error;
  const sentence = `Redis refuses this worker's user the channel ${channel} (${problem}): ${GIVE_RIGHTS}.`;
  return new SubagentError("invalid_config", sentence, { channel });
}
