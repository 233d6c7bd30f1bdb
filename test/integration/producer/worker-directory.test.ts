import { expect, test } from "vitest";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { WORKER_TTL_MS } from "../../../src/shared/protocol/worker.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { readWorkers } from "../../../src/shared/redis/survey.ts";
import { createWorkerDirectory } from "../../../src/shared/redis/workers.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";

const about = {
  host: "h",
  version: "0.1.0",
  tools: ["grep"],
  concurrency: 50,
};

function scene() {
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const keys = keysUnder(uniquePrefix());
  return { redis, keys, directory: createWorkerDirectory(redis, keys) };
}

test("announced workers are listed by id until they withdraw", async () => {
  const { redis, keys, directory } = scene();
  expect(await directory.list()).toEqual([]);
  await directory.announce({ id: "w2", ...about });
  await directory.announce({ id: "w1", ...about });
  await directory.announce({ id: "w1", ...about, concurrency: 7 });
  expect(await directory.list()).toEqual([
    { v: 1, id: "w1", ...about, concurrency: 7 },
    { v: 1, id: "w2", ...about },
  ]);
  await directory.withdraw("w2");
  expect(await redis.smembers(keys.workers)).toEqual(["w1"]);
  expect((await directory.list()).map((worker) => worker.id)).toEqual(["w1"]);
});

test("an announcement has the life it says, and one that ran out is forgotten", async () => {
  const { redis, keys, directory } = scene();
  await directory.announce({ id: "w1", ...about });
  await directory.announce({ id: "w2", ...about });
  for (const key of [keys.worker("w1"), keys.workers]) {
    const ttl = await redis.pttl(key);
    expect(ttl).toBeGreaterThan(WORKER_TTL_MS - 5_000);
    expect(ttl).toBeLessThanOrEqual(WORKER_TTL_MS);
  }
  await redis.del(keys.worker("w1"));
  expect((await directory.list()).map((worker) => worker.id)).toEqual(["w2"]);
  expect(await redis.smembers(keys.workers)).toEqual(["w2"]);
});

test("announcements that this version cannot read are left out", async () => {
  const { redis, keys, directory } = scene();
  await directory.announce({ id: "w1", ...about });
  await redis.sadd(keys.workers, "future", "garbage");
  await redis.set(keys.worker("future"), JSON.stringify({ v: 2, id: "future" }), "PX", 10_000);
  await redis.set(keys.worker("garbage"), "{", "PX", 10_000);
  expect((await directory.list()).map((worker) => worker.id)).toEqual(["w1"]);
});

test("of a worker that announces itself while it is surveyed, what it says and since when belong together", async () => {
  const { redis, keys, directory } = scene();
  await directory.announce({ id: "w1", ...about });
  await redis.pexpire(keys.worker("w1"), WORKER_TTL_MS - 10_000);
  const get = redis.get.bind(redis);
  let gets = 0;
  // Over one connection: its next announcement lies between the two reads.
  redis.get = (key) => {
    const found = get(key);
    gets += 1;
    if (gets === 1) void directory.announce({ id: "w1", ...about, concurrency: 7 });
    return found;
  };
  const [seen] = await readWorkers(redis, keys);
  expect(seen?.worker.concurrency).toBe(7);
  expect(gets).toBe(2);
});
