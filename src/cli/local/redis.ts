/**
 * The source of Redis: REDIS_URL, else a private server from the PATH (`private-redis.ts`), else the embedded one
 * (`embedded-redis.ts`). Those modules own the servers.
 */

import { type Clock, LoopTime } from "../../shared/clock.ts";
import type { Config } from "../../shared/config.ts";
import { codeOf, isWrongType, messageOf, SubagentError } from "../../shared/errors.ts";
import { CONNECTION_CLOSED, networkProblem } from "../../shared/network-problem.ts";
import { clip } from "../../shared/protocol/text.ts";
import { connectionProblem, NO_CLUSTER, PART_AWAY } from "../../shared/redis/connection/cluster.ts";
import {
  closeRedis,
  GIVE_RIGHTS,
  mayLackTls,
  onConnection,
  openRedis,
  type RedisClient,
  refuseWrongServer,
  WITHOUT_TLS,
  whenAccepted,
} from "../../shared/redis/connection/connection.ts";
import {
  isDiskRefusal,
  isOutOfMemory,
  MAKE_ROOM,
  REPAIR_DISK,
} from "../../shared/redis/connection/server-check.ts";
import { type Installation, openInstallation } from "../../shared/redis/installation.ts";
import { withoutPassword } from "../../shared/redis-url.ts";
import { EMBEDDED_WARNING, startEmbeddedRedis } from "./embedded-redis.ts";
import { findServer, startPrivateRedis } from "./private-redis.ts";

/** Time without a byte from Redis after which a request fails. */
const SILENT_MS = 5_000;
/** Maximum length of the detail about unreadable data in the error. */
const SHOWN_CHARS = 200;
const NOT_EMBEDDED =
  "In production mode the embedded Redis, which keeps everything in memory, is refused: set REDIS_URL, or install redis-server.";

/** A Redis that answers. */
export interface RedisSource {
  readonly url: string;
  /** For the banner, e.g. `redis://127.0.0.1:6379 (7.0.15)`. */
  readonly description: string;
  /** True if the server ends with this process. */
  readonly isPrivate: boolean;
  /** Resolves when a private server has ended; never for a server started elsewhere. */
  readonly gone: Promise<void>;
  /** Stops a server that was started here; idempotent. */
  stop(): Promise<void>;
}

/**
 * Opens the Redis that `redisUrl` names, or starts one: from `searchPath`, or the embedded one if there is none.
 * Throws `redis_unavailable` if it cannot be reached now (refused at once, silent for 5 s), `setup_failed` if none
 * can be started, `invalid_config` if it would be the embedded one in `production`.
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

/** Names of the errors that a value causes which no version of this package writes; Redis itself has answered then. */
const UNREADABLE: ReadonlySet<string> = new Set(["SyntaxError", "TypeError", "RangeError", "ZodError"]);

/** Returns the error for an unusable Redis or unreadable data in it; its sentence has the reason and what to do. */
export function redisError(redisUrl: string, reason: unknown): SubagentError {
  const url = withoutPassword(redisUrl);
  if (reason instanceof Error && (UNREADABLE.has(reason.name) || isWrongType(reason))) {
    const sentence = `Data in Redis at ${url} cannot be read (${clip(messageOf(reason), SHOWN_CHARS)}): run one version of this package on it, and nothing else under its prefix.`;
    return new SubagentError("protocol_violation", sentence, {}, reason);
  }
  const why = reasonOf(reason);
  const sentence = mayLackTls(redisUrl, connectionProblem(reason))
    ? `No Redis with TLS at ${url} (${why}): ${WITHOUT_TLS}; else start it, or correct REDIS_URL.`
    : sentenceAbout(url, why);
  return new SubagentError("redis_unavailable", sentence, {}, reason);
}

/** Returns the error with the address in its sentence if Redis sent it; this program's own errors are returned unchanged. */
export function namingRedis(redisUrl: string, error: unknown): unknown {
  if (!(error instanceof SubagentError)) return redisError(redisUrl, error);
  if (error.code !== "invalid_config" || !(error.cause instanceof Error)) return error;
  // For a cluster the reason is in `details.problem`; the cause has only the message that Redis sent.
  return redisError(redisUrl, error.details.problem ?? error.cause);
}

/** Messages of Node about a certificate that it does not accept. */
const UNTRUSTED = /certificate has expired|self-signed certificate|unable to (?:get|verify)|altnames/;

/** Refusals of a user who lacks rights: of a command, and of one in a script by Redis 7.0 and by later versions. */
const LACKS_RIGHTS = /^(?:NOPERM |ERR The user executing the script can't run|ERR ACL failure in script)/;

/** Returns true for the reasons of a cluster with a node that is away. */
const isPartAway = (why: string) => why === PART_AWAY || why.startsWith("CLUSTERDOWN ");

function sentenceAbout(url: string, why: string): string {
  if (isOutOfMemory(why)) return `Redis at ${url} has no memory left (${why}): ${MAKE_ROOM}.`;
  if (isDiskRefusal(why))
    return `Redis at ${url} refuses writes (${why}): ${REPAIR_DISK}; work goes on by itself then.`;
  if (LACKS_RIGHTS.test(why)) return `Redis at ${url} refuses its user something (${why}): ${GIVE_RIGHTS}.`;
  if (UNTRUSTED.test(why))
    return `Redis at ${url} cannot be trusted (${why}): correct its certificate, or name the CA that signed it in REDIS_URL, as ?ca=/path/ca.pem.`;
  if (isPartAway(why))
    return `Redis at ${url} takes no commands (${why}): start the nodes that are away; work goes on by itself then.`;
  if (why === CONNECTION_CLOSED)
    return `Redis at ${url} closed the connection: it was stopped, its maxclients is reached, or REDIS_URL names another server.`;
  return ANSWERED.test(why)
    ? `Redis at ${url} cannot be used (${why}): correct REDIS_URL, or fix that server.`
    : `No Redis at ${url} (${why}): start it, or correct REDIS_URL.`;
}

/** Returns REDIS_URL for a command that starts no Redis. Without it, throws `invalid_config`; `purpose` is in the sentence. */
export function requireRedisUrl({ redisUrl }: Pick<Config, "redisUrl">, purpose: string): string {
  if (redisUrl !== undefined) return redisUrl;
  throw new SubagentError("invalid_config", `REDIS_URL is not set: ${purpose}, e.g. redis://host:6379.`);
}

/** Reads the server's version. */
function versionOf(redisUrl: string, clock: Clock): Promise<string> {
  return askRedis(redisUrl, clock, async (redis) => {
    const info = await redis.info("server");
    return /^(?:valkey|redis)_version:(\S+)/m.exec(info)?.[1] ?? "version unknown";
  });
}

/**
 * Makes a request over a connection. Throws `redis_unavailable` with the reason if the connection is refused or fails, or if
 * Redis sends nothing for 5 s; stalls of this process do not count. A long answer that keeps arriving does not time out.
 * Throws `protocol_violation` if the data is not this product's, and `invalid_config` at a single node of a cluster.
 */
export type RedisRequest = <T>(question: (redis: RedisClient) => Promise<T>) => Promise<T>;

/** Makes one request over its own connection. Throws as {@link RedisRequest} does. */
export function askRedis<T>(
  redisUrl: string,
  clock: Clock,
  question: (redis: RedisClient) => Promise<T>,
): Promise<T> {
  return withRedis(redisUrl, clock, (ask) => ask(question));
}

/** Opens a connection for `work`, which may make requests over it, one after the other; then closes it. */
export async function withRedis<T>(
  redisUrl: string,
  clock: Clock,
  work: (ask: RedisRequest) => Promise<T>,
): Promise<T> {
  const redis = openRedis(redisUrl, "asker");
  const onSilence = silenceWatch(redis, clock);
  let accepted: Promise<void> | undefined;
  try {
    return await work(async (question) => {
      let forget = () => {};
      const failed = new Promise<never>((_, reject) => {
        const silence = onSilence(() => reject(silenceOf(redisUrl)));
        redis.on("error", reject);
        forget = () => {
          silence.cancel();
          redis.off("error", reject);
        };
      });
      accepted ??= whenAccepted(redis).then(() => refuseWrongServer(redis));
      try {
        return await Promise.race([accepted.then(() => question(redis)), failed]);
      } catch (error) {
        if (error instanceof SubagentError) throw error;
        throw redisError(redisUrl, error);
      } finally {
        forget();
      }
    });
  } finally {
    closeRedis(redis);
  }
}

/** Returns a watch: it calls `isSilent` when the connection has received nothing for {@link SILENT_MS}, unless cancelled. */
function silenceWatch(redis: RedisClient, clock: Clock): (isSilent: () => void) => { cancel(): void } {
  const time = new LoopTime(clock);
  let heardAtMs = 0;
  onConnection(redis, (connection) => {
    connection.on("connect", () => {
      connection.stream.on("data", () => {
        heardAtMs = time.nowMs;
      });
    });
  });
  return (isSilent) => {
    heardAtMs = time.nowMs;
    const check = () => {
      const leftMs = heardAtMs + SILENT_MS - time.nowMs;
      if (leftMs > 0) timer = time.after(leftMs, check);
      else isSilent();
    };
    let timer = time.after(SILENT_MS, check);
    return { cancel: () => timer.cancel() };
  };
}

/** The parts of an installation for a command's own connection: those that need no stop. */
export type AskedInstallation = Pick<Installation, "redis" | "keys" | "store" | "workers" | "pause">;

/** Makes a request to an installation. Throws as {@link RedisRequest} does. */
export type AskInstallation = <T>(question: (installation: AskedInstallation) => Promise<T>) => Promise<T>;

/** Makes one request to the installation under `prefix` over its own connection. Throws as {@link RedisRequest} does. */
export function askInstallation<T>(
  redisUrl: string,
  prefix: string,
  clock: Clock,
  question: (installation: AskedInstallation) => Promise<T>,
): Promise<T> {
  return withInstallation(redisUrl, prefix, clock, (ask) => ask(question));
}

/** Opens a connection to the installation under `prefix` for `work`, as {@link withRedis} does. */
export function withInstallation<T>(
  redisUrl: string,
  prefix: string,
  clock: Clock,
  work: (ask: AskInstallation) => Promise<T>,
): Promise<T> {
  return withRedis(redisUrl, clock, (ask) => {
    let installation: AskedInstallation | undefined;
    return work((question) =>
      ask((redis) => {
        installation ??= openInstallation(redis, { prefix });
        return question(installation);
      }),
    );
  });
}

/** Returns the error for a silent Redis. Nothing refused the connection, so the sentence only states the measured time. */
function silenceOf(redisUrl: string): SubagentError {
  const causes = "Redis, the network or this machine is busy, or REDIS_URL names another server";
  const more = mayLackTls(redisUrl) ? `; ${WITHOUT_TLS}` : "";
  return new SubagentError(
    "redis_unavailable",
    `Redis at ${withoutPassword(redisUrl)} has not answered within ${SILENT_MS / 1_000} s and did not refuse the connection: ${causes}${more}.`,
  );
}

/** Matches a reason that a server sent, e.g. `WRONGPASS …`: something answers, but it cannot be used. */
const ANSWERED = new RegExp(`^(?:[A-Z]{3,} |Protocol error|${NO_CLUSTER})`);

function reasonOf(error: unknown): string {
  const words = connectionProblem(error).replace(/\.(?: Please report this\.)?$/, "");
  return networkProblem(error) ?? (words || (codeOf(error) ?? ""));
}
