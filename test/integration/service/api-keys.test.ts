/** Guarantee: thousands of API keys hold up neither Redis nor the process that makes one more. */
import { expect, test } from "vitest";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";

const TENANTS = 5_000;
/** A page has a few entries more than it was asked for. */
const MOST_AT_ONCE = 2_000;

/** An installation in which each tenant has one key; `atOnce`: how many keys each command has read. */
async function scene() {
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const { apiKeys } = keysUnder(uniquePrefix());
  const stored = (i: number) => ({
    ...{ v: 1, tenant: `tenant-${i}`, name: "backend", scope: "spawn", digest: "a".repeat(64) },
    created_at: new Date(i).toISOString(),
  });
  const fields = Array.from({ length: TENANTS }, (_, i) => [
    i.toString(16).padStart(16, "0"),
    JSON.stringify(stored(i)),
  ]);
  await redis.hset(apiKeys, ...fields.flat());
  const atOnce: number[] = [];
  const [hgetall, hscan] = [redis.hgetall.bind(redis), redis.hscan.bind(redis)];
  redis.hgetall = (async (key: string) => {
    const all = await hgetall(key);
    atOnce.push(Object.keys(all).length);
    return all;
  }) as typeof redis.hgetall;
  redis.hscan = (async (key: string, cursor: string, word: "COUNT", count: number) => {
    const page = await hscan(key, cursor, word, count);
    atOnce.push(page[1].length / 2);
    return page;
  }) as typeof redis.hscan;
  return { keys: createApiKeys(redis, { ...keysUnder("unused"), apiKeys }), atOnce };
}

test("among thousands of keys one is made, a second one of its name, and no third; no command reads all of them", async () => {
  const { keys, atOnce } = await scene();
  const made = await keys.create({ tenant: "tenant-7", name: "front", scope: "read" });
  await expect(keys.create({ tenant: "tenant-7", name: "front", scope: "read" })).rejects.toMatchObject({
    code: "conflict",
  });
  await keys.rotate(made.key_id);
  await expect(keys.rotate(made.key_id)).rejects.toMatchObject({ code: "conflict" });
  const listed = await keys.list();
  expect(listed).toHaveLength(TENANTS + 2);
  expect(listed.slice(0, 3).map(({ tenant }) => tenant)).toEqual(["tenant-0", "tenant-1", "tenant-2"]);
  expect(atOnce.length).toBeGreaterThan(0);
  expect(Math.max(...atOnce)).toBeLessThan(MOST_AT_ONCE);
});

test("another tenant's key of the same name is in nobody's way, also where one tenant's name contains the other's", async () => {
  const { keys } = await scene();
  // The scene has this name at `tenant-70` and others, but not at `tenant-`.
  const made = await keys.create({ tenant: "tenant", name: "backend", scope: "read" });
  expect(await keys.find(made.token)).toMatchObject({ tenant: "tenant", scope: "read" });
});

test("a token with anything before or behind it opens nothing", async () => {
  const { keys } = await scene();
  const { token, key_id } = await keys.create({ tenant: "tenant-7", name: "front", scope: "read" });
  expect(await keys.find(token)).toMatchObject({ key_id });
  for (const text of [`${token}0`, `${token}\n`, ` ${token}`, token.slice(0, -1)])
    expect(await keys.find(text)).toBeUndefined();
});
