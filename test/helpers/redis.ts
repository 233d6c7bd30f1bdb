/**
 * Redis for tests: names on the one server that the whole run shares, and servers of a test's own.
 * A test that stops, starves or reconfigures Redis uses `startPrivateRedis()` and leaves the shared one alone.
 */
import { randomBytes } from "node:crypto";
import { Cluster, type Redis } from "ioredis";
import { inject } from "vitest";
import type { RedisClient } from "../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "./cleanup.ts";
import { type RedisCluster, startCluster } from "./cluster.ts";
import { HOLDS_NOTHING_BACK, type RedisServer, startRedisServer } from "./redis-server.ts";

export { HOLDS_NOTHING_BACK } from "./redis-server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** `redis://127.0.0.1:PORT` of the shared server, or in the project `cluster` the URL of the shared cluster. */
    redisUrl: string;
    /** Path of the shared server's unix socket; absent when that is the embedded server, which has none. */
    redisSocket?: string;
  }
}

/** URL of the server shared by all test files: never FLUSHALL, CONFIG SET or kill it; use `uniquePrefix()`. */
export function redisUrl(): string {
  return inject("redisUrl");
}

/** Unix socket of the shared server; the same rules. A file that runs on the embedded server uses `redisUrl()`. */
export function redisSocket(): string {
  const path = inject("redisSocket");
  if (path === undefined) throw new Error("the embedded server has no unix socket; use redisUrl()");
  return path;
}

/** A name no other test uses, fit for key prefixes, tenants and queue names: `t` and 12 hex digits. */
export function uniquePrefix(): string {
  return `t${randomBytes(6).toString("hex")}`;
}

/** The connections to all servers that a client talks to. */
export function serversOf(redis: RedisClient): Redis[] {
  return redis instanceof Cluster ? redis.nodes() : [redis];
}

/** Has all servers that a client talks to do the same; waits until it knows them. */
export async function onEachServer(
  redis: RedisClient,
  work: (server: Redis) => Promise<unknown>,
): Promise<void> {
  await redis.exists("any");
  await Promise.all(serversOf(redis).map(work));
}

const mastersOf = (redis: RedisClient) => (redis instanceof Cluster ? redis.nodes("master") : [redis]);

/** The URLs of a server, or of all masters of a cluster. */
export function masterUrls(redis: RedisClient): string[] {
  return mastersOf(redis).map(({ options: { host, port } }) => `redis://${host}:${port}`);
}

/** The keys that match, of a server or of all masters of a cluster. */
export async function keysLike(redis: RedisClient, pattern: string): Promise<string[]> {
  return (await Promise.all(mastersOf(redis).map((server) => server.keys(pattern)))).flat();
}

/** Starts a server of the test's own, stopped and removed at the end of the test (or of the file). */
export async function startPrivateRedis(
  options: { arguments?: readonly string[] } = {},
): Promise<RedisServer> {
  const server = await startRedisServer(options.arguments ?? []);
  closeAtEnd(() => server.stop());
  return server;
}

/** Starts a cluster of the test's own that may be killed, stopped and removed at the end of the test (or of the file). */
export async function startPrivateCluster(): Promise<RedisCluster> {
  const cluster = await startCluster(HOLDS_NOTHING_BACK);
  closeAtEnd(() => cluster.stop());
  return cluster;
}
