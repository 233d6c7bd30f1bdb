/** Guarantee: what a call announces before its verb, and wakes behind it, is there also when nothing else ever happens. */
import { expect, test } from "vitest";
import { deadlineMember, keysUnder } from "../../../src/shared/protocol/keys.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { redisNowMs } from "../../../src/shared/redis/redis-time.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { testClient, testParent } from "../../helpers/parents.ts";
import { onEachServer, redisUrl, startPrivateRedis, uniquePrefix } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";

/** A parent with an idle agent, and how long it is until a sweeper checks that. */
async function scene() {
  const prefix = uniquePrefix();
  const keys = keysUnder(prefix);
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const parent = testParent(testClient({ prefix }));
  await parent.spawn({ name: "a" });
  const address = { tenant: parent.tenant, parentId: parent.parentId };
  const uid = (await redis.hget(keys.parent(address).registry, "a")) ?? "";
  const checkedInMs = async () =>
    Number(await redis.zscore(keys.deadlines, deadlineMember({ ...address, uid }))) -
    (await redisNowMs(redis));
  return { keys, redis, parent, uid, checkedInMs };
}

test("send, answer and finish have the agent checked soon, also one that they do not get", async () => {
  for (const call of ["send", "answer", "finish"] as const) {
    const { parent, checkedInMs } = await scene();
    expect(await checkedInMs()).toBeGreaterThan(TIMING.checkMs);
    if (call === "send") await parent.send("a", "go");
    if (call === "answer")
      await expect(parent.answer("a", "yes", { question_id: "1/x" })).rejects.toMatchObject({
        code: "unknown_question",
      });
    if (call === "finish") await parent.finish("a");
    expect(await checkedInMs(), call).toBeLessThanOrEqual(TIMING.checkMs);
  }
});

test("a message that is sent again wakes again: the first try may have ended before its wake", async () => {
  const { parent, redis, keys, uid } = await scene();
  const job = keys.wakeJob(`${uid}.1`);
  await parent.send("a", "go", { message_id: "m1" });
  // What gives the wake its place would write to it once more.
  await until(async () => (await redis.hget(job, "priority")) === "1");
  expect(await redis.del(job)).toBe(1);
  await parent.send("a", "go", { message_id: "m1" });
  expect(await redis.exists(job)).toBe(1);
});

test("a spawn whose hint was refused is told as it was: done, and on a cluster, where it waited for the hint, not done", async () => {
  const prefix = uniquePrefix();
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  // As a replica that becomes the master between the two.
  const rights = ["on", ">secret", `~${prefix}:*`, `~{${prefix}}:w*`, "&*", "+@all"];
  await onEachServer(redis, (server) => server.acl("SETUSER", prefix, ...rights));
  closeAtEnd(() => onEachServer(redis, (server) => server.acl("DELUSER", prefix)));
  const refused = redisUrl().replace("//", `//${prefix}:secret@`);
  const parent = testParent(testClient({ prefix, redisUrl: refused }));
  const spawning = parent.spawn({ name: "a" });
  if (redis.isCluster) await expect(spawning).rejects.toMatchObject({ code: "redis_unavailable" });
  else await expect(spawning).resolves.toMatchObject({ agent_id: "a" });
  expect(await redis.exists(keysUnder(prefix).deadlines)).toBe(0);
  expect((await parent.list()).map(({ agent_id }) => agent_id)).toEqual(redis.isCluster ? [] : ["a"]);
});

test("in production mode nothing is spawned or sent on a Redis that may lose it, whether the client was started or not", async () => {
  const server = await startPrivateRedis({ arguments: ["--maxmemory-policy", "allkeys-lru"] });
  const options = { redisUrl: server.url, prefix: uniquePrefix() };
  const parent = testParent(testClient(options));
  await parent.spawn({ name: "a" });
  const strict = testParent(testClient({ ...options, strict: true }));
  await expect(strict.spawn({ name: "b" })).rejects.toMatchObject({ code: "invalid_config" });
  await expect(strict.send("a", "go")).rejects.toMatchObject({ code: "invalid_config" });
  expect((await parent.list()).map(({ agent_id, status }) => [agent_id, status])).toEqual([["a", "idle"]]);
});
