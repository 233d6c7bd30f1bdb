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

/** Announces so many workers, and returns how many announcements each question to the directory has read. */
async function fleetOf(size: number) {
  const { redis, keys, directory } = scene();
  for (let from = 0; from < size; from += 100)
    await Promise.all(
      Array.from({ length: Math.min(100, size - from) }, (_, i) =>
        directory.announce({ id: `w${from + i}`, ...about }),
      ),
    );
  const mget = redis.mget.bind(redis) as (wanted: string[]) => Promise<(string | null)[]>;
  const read: number[] = [];
  redis.mget = ((wanted: string[]) => {
    read.push(wanted.length);
    return mget(wanted);
  }) as typeof redis.mget;
  return { redis, keys, directory, read };
}

test("whether a worker is live costs the same of 10 and of 3,000, and no command reads all of many", async () => {
  for (const size of [10, 3_000]) {
    const { directory, read } = await fleetOf(size);
    expect(await directory.isAnyLive()).toBe(true);
    expect(read, `${size} workers`).toEqual([8]);
    expect(await directory.list()).toHaveLength(size);
    expect(Math.max(...read)).toBeLessThanOrEqual(1_000);
  }
});

test("a live worker is found among many that are gone, and these are forgotten", async () => {
  const { redis, keys, directory } = await fleetOf(1);
  await redis.sadd(keys.workers, ...Array.from({ length: 500 }, (_, i) => `gone-${i}`));
  expect(await directory.isAnyLive()).toBe(true);
  await redis.del(keys.worker("w0"));
  expect(await directory.isAnyLive()).toBe(false);
  expect(await redis.exists(keys.workers)).toBe(0);
});

test("workers are counted for a few commands, and those that are gone count no longer than it takes to meet them", async () => {
  const { redis, keys, directory, read } = await fleetOf(100);
  expect(await directory.count()).toBe(100);
  expect(read).toEqual([8]);
  await redis.del(...Array.from({ length: 20 }, (_, i) => keys.worker(`w${i}`)));
  for (let asked = 0; asked < 500 && (await directory.count()) > 80; asked += 1);
  expect(await directory.count()).toBe(80);
  expect(Math.max(...read)).toBe(8);
});
