import { expect, test } from "vitest";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { createPause } from "../../../../src/shared/redis/pause.ts";
import type { Steps } from "../../../../src/shared/redis/steps.ts";
import { createWakeQueue } from "../../../../src/shared/redis/wake-queue.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { keysLike, redisUrl, uniquePrefix } from "../../../helpers/redis.ts";

function installation() {
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const prefix = uniquePrefix();
  const keys = keysUnder(prefix);
  const wakes = createWakeQueue(redis, keys);
  closeAtEnd(() => wakes.stop());
  /** Whether BullMQ's queue of wakes is paused. */
  const isQueuePaused = async () => {
    const [meta = ""] = await keysLike(redis, `*${prefix}*wakes:meta`);
    return (await redis.hexists(meta, "paused")) === 1;
  };
  return { redis, keys, isQueuePaused };
}

test.for([
  ["a note of a newer version", (set: Setter) => set.text('{"v":2,"until":"noon"}')],
  ["a note that is no JSON", (set: Setter) => set.text("stop")],
  ["a key of another type", (set: Setter) => set.list("stop")],
] as const)("%s pauses as well: whoever wrote it wants no spending", async ([, write]) => {
  const { redis, keys } = installation();
  await write({
    text: (value) => redis.set(keys.paused, value),
    list: (value) => redis.rpush(keys.paused, value),
  });
  expect(await createPause(redis, keys).state()).toEqual({ at: "1970-01-01T00:00:00.000Z" });
});

interface Setter {
  text(value: string): Promise<unknown>;
  list(value: string): Promise<unknown>;
}

test("a resume that fails after any of its commands leaves no queue that stands still without a reason", async () => {
  for (let works = 1; works <= 4; works++) {
    const { redis, keys, isQueuePaused } = installation();
    await createPause(redis, keys, handClock()).begin("budget");
    expect(await isQueuePaused()).toBe(true);
    let left = works;
    const send = async <T>(work: () => Promise<T>): Promise<T> => {
      if (left === 0) throw new TypeError("away");
      left -= 1;
      return work();
    };
    const steps: Steps = { read: send, write: (work) => send(() => work(false)) };
    await expect(createPause(redis, keys, handClock(), steps).resume()).rejects.toThrow("away");
    if ((await redis.exists(keys.paused)) === 0) expect(await isQueuePaused()).toBe(false);
  }
});
