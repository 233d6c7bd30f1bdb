/**
 * The line on which a worker hears that a run of its own must stop at once, e.g. because a parent destroyed the agent, or that
 * a provider's limit has changed.
 *
 * Owns: the subscriber connection, and when runs are asked about because a hint may have been missed. Its neighbour
 * `lease.ts` does the asking; Redis' answer decides, a hint only says that it is worth asking.
 *
 * 1. As soon as the line is up again every run is asked about: a hint may have gone out while it was down.
 * 2. While it is down every run is asked about twice a second, as long as the worker's own connection is there.
 * 3. A line on which Redis answers no more is given up and opened anew (`heartbeat.ts`).
 */
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import { closeRedis, type RedisClient, whenAccepted } from "../../shared/redis/connection/connection.ts";
import { startHeartbeat } from "../../shared/redis/connection/heartbeat.ts";
import { GIVE_RIGHTS } from "../../shared/redis/connection/server-check.ts";
import type { LeaseKeeper } from "../run/lease.ts";

const DEAF_CHECK_MS = 500;
/** What a hint about a provider's limiter begins with; every other hint is the uid of an agent. */
const LIMITER_HINT = "limiter ";

/** The hint about the limiter `name`. */
export function limiterHint(name: string): string {
  return LIMITER_HINT + name;
}

/** See the module's header. */
export interface WorkerHints {
  /**
   * Resolves when hints are heard; waits for Redis as long as it takes. Rejects when stopped meanwhile, and with `invalid_config`
   * where the user of Redis may not subscribe.
   */
  start(): Promise<void>;
  /** Whether Redis answered on it a moment ago. */
  readonly isAlive: boolean;
  /** Closes the connection. Idempotent. */
  stop(): void;
}

/** What {@link createWorkerHints} needs. */
export interface WorkerHintsOptions {
  /** A subscriber connection of the line's own; closed by `stop`. */
  redis: RedisClient;
  channel: string;
  /** The leases of this process' runs. */
  leases: LeaseKeeper;
  /** Told of a provider's limiter at which another process met something. */
  onLimiter(name: string): void;
  /** Whether the connection over which runs are asked about can be used now. */
  canAsk(): boolean;
  clock: Clock;
}

/** A line on `redis`, not started. */
export function createWorkerHints(options: WorkerHintsOptions): WorkerHints {
  const { redis, channel, leases, canAsk, clock } = options;
  const heartbeat = startHeartbeat(redis, clock);
  let timer: { cancel(): void } | undefined;
  let hears = false;
  let stopped = false;

  const askAboutAll = () => {
    if (canAsk()) for (const lease of leases.held.values()) void lease.renew();
  };
  const listen = async () => {
    await redis.subscribe(channel).catch((error: unknown) => {
      throw namingChannel(channel, error);
    });
    hears = true;
    timer?.cancel();
    askAboutAll();
  };
  const askWhileDeaf = () => {
    timer?.cancel();
    if (hears || stopped) return;
    timer = clock.timeout(DEAF_CHECK_MS, askWhileDeaf);
    askAboutAll();
  };
  redis.on("message", (_channel: string, hint: string) => applyHint(hint, options));
  redis.on("ready", () => void listen().catch(() => {}));
  redis.on("close", () => {
    hears = false;
    askWhileDeaf();
  });
  return {
    async start() {
      // A subscription during a handshake that fails is never confirmed.
      await whenAccepted(redis);
      await listen();
    },
    get isAlive() {
      return heartbeat.isAlive;
    },
    stop() {
      stopped = true;
      heartbeat.stop();
      closeRedis(redis);
    },
  };
}

function applyHint(hint: string, { leases, onLimiter }: WorkerHintsOptions): void {
  if (hint.startsWith(LIMITER_HINT)) onLimiter(hint.slice(LIMITER_HINT.length));
  else leases.askAbout(hint);
}

/** Redis says that a channel was refused, not which one. */
function namingChannel(channel: string, error: unknown): unknown {
  const problem = messageOf(error);
  if (!problem.startsWith("NOPERM ")) return error;
  const sentence = `Redis refuses this worker's user the channel ${channel} (${problem}): ${GIVE_RIGHTS}.`;
  return new SubagentError("invalid_config", sentence, { channel });
}
