/** What is left in Redis is judged by looking at it: a look that finds nothing at all is no proof. */
import { expect, test } from "vitest";
import { openStage, SHORT_TIMING, type Stage } from "../stage/stage.ts";
import { PARENT_IDS } from "./load.ts";
import { judgeLeftovers } from "./oracle-leftovers.ts";

const scenario = { turns: [{ content: [{ type: "text" as const, text: "done" }] }] };

async function brokenIn(installation: Stage, withinMs = 100) {
  const { violations } = await judgeLeftovers(installation, 1, withinMs);
  return violations.map(({ broken }) => broken);
}

test("a Redis without a trace of the agents is noticed, one with an ended agent's record passes", async () => {
  const installation = await openStage({ scenario, timing: SHORT_TIMING });
  expect(await brokenIn(installation)).toEqual(["the record of an ended agent is kept for a while"]);
  await installation.startWorker();
  const agent = await installation.task("work");
  await installation.reply(agent);
  expect(await brokenIn(installation, 15_000)).toEqual([]);
});

test("a place, a wake and a look that stay, and a key that goes by nothing, are noticed", async () => {
  const installation = await openStage({ scenario });
  const { redis, keys } = installation;
  const parent = { tenant: "default", parentId: PARENT_IDS[0] ?? "" };
  await redis.hset(keys.parent(parent).live, "sa-0", 1);
  await redis.lpush(`${keys.bullPrefix}:${keys.wakeQueue}:wait`, "sa-0.1");
  await redis.set(keys.agent({ ...parent, uid: "sa-0" }).record, 1);
  await redis.zadd(keys.deadlines, 1, "nobody", Date.now() + 600_000, "looked at in its time");
  await redis.hset(keys.hintGrace, "forgotten", 1, "looked at in its time", 1);
  expect(new Set(await brokenIn(installation))).toEqual(
    new Set([
      "no place in a quota is leaked",
      "nobody looks at agents that have ended",
      "no wake is left",
      "nothing else is left of an ended agent",
      "what is left of an ended agent goes by itself",
    ]),
  );
});
