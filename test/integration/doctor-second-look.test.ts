/** Guarantee: what only one look shows is not reported: a trouble of an agent, or a line of wakes that has moved since. Nor is what a sweeper is about to do. */
import { expect, test } from "vitest";
import { type ExamineOptions, examine, openToExamine } from "../../src/cli/doctor/examine.ts";
import { createDisposables } from "../../src/cli/local/disposables.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { createLogger } from "../../src/shared/logger.ts";
import { deadlineMember } from "../../src/shared/protocol/keys.ts";
import { createWorkerDirectory } from "../../src/shared/redis/workers.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { openStage, type Stage } from "../stage/stage.ts";

const HERE: ExamineOptions = { host: "here", isProduction: false };

/** Examines a stage; `between` replaces each wait between two looks. */
async function examined({ url, prefix, workspaceRoot }: Stage, between: () => Promise<unknown>) {
  const closing = createDisposables();
  closeAtEnd(() => closing.close());
  const clock = { ...systemClock, sleep: async () => void (await between()) };
  const logger = createLogger({ level: "silent" });
  return examine(await openToExamine(url, { prefix, workspaceRoot, clock, logger }, closing), HERE);
}

test("of an agent whose trouble is over at the second look, no new one is reported yet", async () => {
  const stage = await openStage();
  const { redis, keys } = stage;
  const [repaired, lasting] = [await stage.spawn(), await stage.spawn()];
  const { live } = keys.parent(repaired);
  const lifeKey = await redis.hget(live, repaired.uid);
  await redis.hdel(live, repaired.uid, lasting.uid);
  const { suspects } = await examined(stage, async () => {
    await redis.hset(live, repaired.uid, lifeKey ?? "");
    await redis.zrem(keys.deadlines, deadlineMember(repaired), deadlineMember(lasting));
  });
  expect(suspects.map(({ snapshot, troubles }) => [snapshot.address.uid, troubles])).toEqual([
    [lasting.uid, ["uncounted"]],
  ]);
});

test("a line of wakes that moves beside free slots is not stuck, nor one that is paused; one that stands is", async () => {
  const stage = await openStage();
  const { redis, keys } = stage;
  const worker = { id: "w-1", host: "a", version: "0.1.0", tools: [], concurrency: 10, now: Date.now() };
  await createWorkerDirectory(redis, keys).announce(worker);
  const parent = stage.parent();
  for (const name of ["one", "two", "three"]) {
    await parent.spawn({ name, keep_alive: true });
    await parent.send(name, "work");
  }
  expect((await examined(stage, async () => {})).areWakesStuck).toBe(true);
  expect((await examined(stage, () => redis.zpopmin(keys.rankedWakes))).areWakesStuck).toBe(false);
  await redis.hset(`${keys.bullPrefix}:${keys.wakeQueue}:meta`, "paused", 1);
  const { wakes, areWakesStuck } = await examined(stage, async () => {});
  expect([wakes.waiting, wakes.isPaused, areWakesStuck]).toEqual([2, true, false]);
});

test("an entry of the deadline set that names no agent is reported only when its check is overdue", async () => {
  const stage = await openStage();
  await stage.redis.zadd(stage.keys.deadlines, Date.now() + 60_000, "of tomorrow", 1, "of long ago");
  const { strayMembers } = await examined(stage, async () => {});
  expect(strayMembers).toEqual(["of long ago"]);
});
