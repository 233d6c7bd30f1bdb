/** A reply whose ack failed is still in the channel: the readers of its process see it. */
import { expect, test } from "vitest";
import type { Parent } from "../../../src/producer/parent.ts";
import { openFaultLine } from "../../helpers/fault-line.ts";
import { testParent } from "../../helpers/parents.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { isCallOf } from "../../helpers/redis-commands.ts";
import { openStage } from "../../stage/stage.ts";

const isAck = isCallOf("ack");

test.for([
  ["a task", (parent: Parent) => parent.task({ name: "a", prompt: "go" })],
  ["a wait for the first", (parent: Parent) => parent.waitAny(["a"])],
  ["a wait for all", (parent: Parent) => parent.waitAll(["a"])],
] as const)("the reply of %s", async ([what, waitOf]) => {
  const stage = await openStage();
  let refusals = 0;
  const line = await openFaultLine(Number(new URL(redisUrl()).port), (words) => {
    if (!isAck(words)) return "passes";
    refusals += 1;
    return "refused";
  });
  const parent = testParent(stage.client({ redisUrl: line }));
  if (what !== "a task") {
    await parent.spawn({ name: "a" });
    await parent.send("a", "go");
  }
  const waited = waitOf(parent);
  const next = parent.replies().next();
  await stage.scriptedWorker().run("a");
  await waited;
  expect((await next).value).toMatchObject({ kind: "reply", agent_id: "a" });
  expect(refusals).toBe(1);
});
