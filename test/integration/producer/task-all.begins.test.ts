/** How the agents of a batch begin. */
import { expect, test } from "vitest";
import { AgentSpecJson } from "../../../src/shared/protocol/agent.ts";
import { addressOfMember } from "../../../src/shared/protocol/keys.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { redisNowMs } from "../../../src/shared/redis/redis-time.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a batch that answers no questions has agents that ask none, checked soon should their first wake get lost", async () => {
  const { redis, keys, parent } = await openStage({ timing: TIMING });
  const stopping = new AbortController();
  const { signal } = stopping;
  const batch = parent("planner-7", { model: "offline-1" }).taskAll(["work"], { signal });
  batch.catch(() => {});
  const [member = "", score] = await until(async () => {
    const found = await redis.zrange(keys.deadlines, 0, -1, "WITHSCORES");
    const address = addressOfMember(found[0] ?? "");
    return address && (await redis.exists(keys.agent(address).record)) === 1 && found;
  });
  const address = addressOfMember(member);
  if (!address) throw new Error(member);
  const spec = AgentSpecJson.parse(await redis.hget(keys.agent(address).record, "spec"));
  expect(spec.answer_ms).toBeUndefined();
  expect(Number(score) - (await redisNowMs(redis))).toBeLessThanOrEqual(TIMING.checkMs);
  stopping.abort(new Error("over"));
  await expect(batch).rejects.toThrow("over");
});
