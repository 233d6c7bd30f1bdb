/** Guarantee: agents that wait for a tool no worker has keep neither Redis nor the workers from others, however many they are. */
import { expect, test } from "vitest";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const MANY = 300;
/** Runs that a worker has at once: their wakes may still be on the way back. */
const CONCURRENCY = 10;
/** A hundred a second come back. */
const LINE_MS = (MANY - CONCURRENCY) * 10;
/** BullMQ's factor of the times of delayed jobs. */
const SCORE = 4_096;

test("the wakes of many agents whose tool no worker has come back one behind the other", async () => {
  const { keys, redis, ...installation } = await openStage({ timing: LONG_TIMING });
  const agents = await Promise.all(
    Array.from({ length: MANY }, () => installation.task("look it up", { tools: ["look_up"] })),
  );
  const startedMs = Date.now();
  await installation.startWorker({ concurrency: CONCURRENCY });
  await until(async () => {
    const found = await Promise.all(
      agents.map((agent) => redis.hexists(keys.agent(agent).record, "tools_since")),
    );
    return found.every((isWaiting) => isWaiting === 1);
  });
  const [, score] = await redis.zrange(keys.delayedWakes, -1, -1, "WITHSCORES");
  expect(Number(score) / SCORE - startedMs).toBeGreaterThanOrEqual(LINE_MS);
});
