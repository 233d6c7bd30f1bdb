/**
 * Where Redis comes from: REDIS_URL, else a private server from the PATH, else the embedded one. Neighbours:
 * `private-redis.ts` and `embedded-redis.ts` own those servers.
 */

import { once } from "node:events";
import { type Clock, LoopTime } from "../../shared/clock.ts";
import type { Config } from "../../shared/config.ts";
import { SubagentError } from "../../shared/errors.ts";
import { clip } from "../../shared/protocol/text.ts";
import { NO_CLUSTER, problemOf } from "../../shared/redis/connection/cluster.ts";
import {
  closeRedis,
  openRedis,
  type RedisClient,
  refuseClusterNode,
} from "../../shared/redis/connection/connection.ts";
import { type Installation, openInstallation } from "../../shared/redis/installation.ts";
import { withoutPassword } from "../../shared/redis-url.ts";
import { EMBEDDED_WARNING, startEmbeddedRedis } from "./embedded-redis.ts";
import { findServer, startPrivateRedis } from "./private-redis.ts";

const ANSWER_WITHIN_MS = 5_000;
/** So much of what could not be read is told. */
const SHOWN_CHARS = 200;
const NOT_EMBEDDED =
  "In production mode the embedded Redis, which keeps everything in memory, is refused: set REDIS_URL, or install redis-server.";

/** A Redis that answers. */
export interface RedisSource {
  readonly url: string;
  /** For the banner, e.g. `redis://127.0.0.1:6379 (7.0.15)`. */
  readonly description: string;
  /** Whether it ends with this process. */
  readonly isPrivate: boolean;
  /** Resolves when a private server is gone; never for a server started elsewhere. */
  readonly gone: Promise<void>;
  /** Ends what was started; idempotent. */
  stop(): Promise<void>;
}

/**
 * Opens the Redis that `redisUrl` names, or starts one: from `searchPath`, or the embedded one when there is none.
 * Throws `redis_unavailable` when it cannot be reached now (refused at once, silent for 5 s), `setup_failed` when none
 * can be started, `invalid_config` where it would be the embedded one in `production`.
 */
export async function openRedisSource(
  { redisUrl, production }: Pick<Config, "redisUrl" | "production">,
  searchPath: string | undefined,
  clock: Clock,
): Promise<RedisSource> {
  if (redisUrl !== undefined) {
    const version = await versionOf(redisUrl, clock);
    const description = `${withoutPassword(redisUrl)} (${version})`;
    return {
      url: redisUrl,
      description,
      isPrivate: false,
      gone: new Promise(() => {}),
      stop: async () => {},
    };
  }
  if (!findServer(searchPath)) {
    if (production) throw new SubagentError("invalid_config", NOT_EMBEDDED);
    const { url, program, gone, stop } = await startEmbeddedRedis({ clock });
    return { url, description: `${program}: ${EMBEDDED_WARNING}`, isPrivate: true, gone, stop };
  }
  const server = await startPrivateRedis({ searchPath, clock });
  const { url, gone, stop } = server;
  try {
    const description = `private ${server.program} ${await versionOf(url, clock)}, gone with its data when this ends`;
    return { url, description, isPrivate: true, gone, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** What is thrown where a value is read that no version of this package writes: Redis has answered then. */
const UNREADABLE: ReadonlySet<string> = new Set(["SyntaxError", "TypeError", "RangeError", "ZodError"]);

/** The error that says why a Redis, or what it holds, cannot be used, and what to do. */
export function noRedisAt(redisUrl: string, reason: unknown): SubagentError {
  const [place, why] = [withoutPassword(redisUrl), reasonOf(reason)];
  if (reason instanceof Error && UNREADABLE.has(reason.name)) {
    const sentence = `Data in Redis at ${place} cannot be read (${clip(why, SHOWN_CHARS)}): run one version of this package on it, and nothing else under its prefix.`;
    return new SubagentError("protocol_violation", sentence, {}, reason);
  }
  const sentence = ANSWERED.test(why)
    ? `Redis at ${place} cannot be used (${why}): correct REDIS_URL, or fix that server.`
    : `No Redis at ${place} (${why}): start it, or correct REDIS_URL.`;
  return new SubagentError("redis_unavailable", sentence, {}, reason);
}

/** REDIS_URL for a command that starts no Redis itself; `purpose` says in the refusal what it is for. Throws `invalid_config`. */
export function neededRedisUrl({ redisUrl }: Pick<Config, "redisUrl">, purpose: string): string {
  if (redisUrl !== undefined) return redisUrl;
  throw new SubagentError("invalid_config", `REDIS_URL is not set: ${purpose}, e.g. redis://host:6379.`);
}

/** The server's version. */
function versionOf(redisUrl: string, clock: Clock): Promise<string> {
  return askRedis(redisUrl, clock, async (redis) => {
    const info = await redis.info("server");
    return /^(?:valkey|redis)_version:(\S+)/m.exec(info)?.[1] ?? "version unknown";
  });
}

/**
 * Asks over a connection of its own. Throws `redis_unavailable` with the reason when it is refused or fails, and when
 * no answer has come after 5 s in which this process could have read one, `protocol_violation` when what it reads is none of
 * ours, and `invalid_config` at one node of a cluster.
 */
export async function askRedis<T>(
  redisUrl: string,
  clock: Clock,
  ask: (redis: RedisClient) => Promise<T>,
): Promise<T> {
  const redis = openRedis(redisUrl, "worker");
  let patience: { cancel(): void } | undefined;
  try {
    const failed = once(redis, "error").then(([error]) => Promise.reject(error));
    const silent = new Promise<never>((_, reject) => {
      patience = new LoopTime(clock).after(ANSWER_WITHIN_MS, () => reject(silenceOf(redisUrl)));
    });
    return await Promise.race([refuseClusterNode(redis).then(() => ask(redis)), failed, silent]);
  } catch (error) {
    if (error instanceof SubagentError) throw error;
    throw noRedisAt(redisUrl, error);
  } finally {
    patience?.cancel();
    closeRedis(redis);
  }
}

/** What a command asks and changes over a connection of its own: the parts that have nothing to stop. */
export type AskedInstallation = Pick<Installation, "redis" | "keys" | "store" | "workers" | "pause">;

/** Asks the installation under `prefix`. Throws as {@link askRedis} does. */
export function askInstallation<T>(
  redisUrl: string,
  prefix: string,
  clock: Clock,
  ask: (installation: AskedInstallation) => Promise<T>,
): Promise<T> {
  return askRedis(redisUrl, clock, (redis) => ask(openInstallation(redis, { prefix })));
}

/** Nothing was refused, so the server may be there: what was measured is said, and no more. */
function silenceOf(redisUrl: string): SubagentError {
  return new SubagentError(
    "redis_unavailable",
    `Redis at ${withoutPassword(redisUrl)} has not answered within ${ANSWER_WITHIN_MS / 1_000} s and did not refuse the connection: Redis, the network or this machine is busy, or REDIS_URL names another server.`,
  );
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ENOENT: "no such socket",
  ENOTFOUND: "unknown host",
  EAI_AGAIN: "unknown host",
  ETIMEDOUT: "no answer",
  EACCES: "permission denied",
  ECONNRESET: "connection closed",
};

/** What something says that is there, e.g. `WRONGPASS …`, and is not the Redis that was meant. */
const ANSWERED = new RegExp(`^(?:[A-Z]{3,} |Protocol error|${NO_CLUSTER})`);

function reasonOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return REASONS[code] ?? (problemOf(error).replace(/\.$/, "") || code);
}
