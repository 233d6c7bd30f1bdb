/** Guarantee: a single schedule whose task begins while it is listed begins no second one. */
import { expect, test, vi } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { started, testParent } from "../../helpers/parents.ts";
import { keysLike } from "../../helpers/redis.ts";
import { openStage } from "../../stage/stage.ts";

test("a single schedule whose job ends between two looks at it gets no second job", async () => {
  const stage = await openStage();
  const client = await started(stage.client());
  const parent = testParent(client);
  await parent.schedule({ schedule_id: "once", at: new Date(Date.now() - 1_000), prompt: "say hello" });
  const head = stage.keys.intakeJob("at-");
  const { redis } = await internalsOf(client).open();
  const hmget = redis.hmget.bind(redis);
  const seen: (string | null)[] = [];
  vi.spyOn(redis, "hmget").mockImplementation(async (key, ...fields) => {
    const job = String(key);
    if (!job.startsWith(head)) return hmget(key, ...fields);
    if (seen.length === 1) await stage.redis.hset(job, { finishedOn: "1", returnvalue: "{}" });
    const answer = await hmget(key, ...fields);
    seen.push(answer[1] ?? null);
    return answer;
  });
  await parent.schedules();
  expect(seen).toEqual([null, "1"]);
  const [job = ""] = await keysLike(stage.redis, `${head}*`);
  expect(await stage.redis.hget(job, "finishedOn")).toBe("1");
});
