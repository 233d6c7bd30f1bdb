/** Guarantee: while Redis takes no writes, announcements expire, and no run ends for want of a tool that a live worker brings. */
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { deadlineMember } from "../../../src/shared/protocol/keys.ts";
import { WORKER_TTL_MS } from "../../../src/shared/protocol/worker.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a sweeper before which Redis refused writes leaves such a run to a worker that announces itself later", async () => {
  const stage = await openStage({ redis: "own" });
  const { redis, keys, observer } = stage;
  let passedMs = 0;
  const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + passedMs };
  const worker = await stage.startWorker({ clock });
  const agent = await stage.spawn({ tools: ["look_up"] });
  await stage.send(agent, "look it up", 3_600_000);
  // The sweeper has worked for long: the list of workers counts.
  passedMs = WORKER_TTL_MS;
  await observer.config("SET", "min-replicas-to-write", "1");
  await until(async () =>
    (await worker.readiness()).reasons.some((each) => each.includes("Redis refuses writes")),
  );
  await observer.config("SET", "min-replicas-to-write", "0");
  const [seconds] = await redis.time();
  const longAgo = Number(seconds) * 1_000 - 3_600_000;
  await redis.hset(keys.agent(agent).record, { tools_since: longAgo, deadline: longAgo });
  await redis.zadd(keys.deadlines, longAgo, deadlineMember(agent));
  await until(async () => {
    const checkAt = await redis.zscore(keys.deadlines, deadlineMember(agent));
    return checkAt === null || Number(checkAt) > (Number(seconds) + 5) * 1_000;
  });
  expect(await stage.entries(agent)).toEqual([]);
  expect(await stage.record(agent)).toMatchObject({ status: "queued" });
});
