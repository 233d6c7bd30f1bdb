/** What a client does for calls whose callers have their answer, and what it keeps of them. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { type Client, internalsOf } from "../../../src/producer/client.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a task whose client stops right after its reply is acked: no later reader gets the reply again", async () => {
  const stage = await openStage();
  const clock = handClock();
  const client = stage.client({ clock });
  const { replies } = stage.keys.parent({ tenant: "default", parentId: "planner-7" });
  const asked = stage.parent("planner-7", { client }).task({ prompt: "go" });
  await stage.scriptedWorker().run("task");
  await asked;
  await client.stop();
  expect(await stage.redis.xlen(replies)).toBe(0);
  // A timer would keep its process awake. That of a cluster's client goes with its last connection.
  await until(() => clock.pending === 0, { timeoutMs: 10_000 });
});

/** Gives the client work that is over at once. */
async function workOf(client: Client): Promise<WeakRef<Promise<void>>> {
  const { inBackground } = await internalsOf(client).open();
  const work = Promise.resolve();
  inBackground(work);
  return new WeakRef(work);
}

test("a client that runs for months keeps nothing of the work that is over", async () => {
  const work = await workOf((await openStage()).client());
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");
  await new Promise(setImmediate);
  collect();
  expect(work.deref()).toBeUndefined();
});
