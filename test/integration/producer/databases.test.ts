/** Guarantee: installations in two databases of one Redis hear nothing of each other, though Redis carries channels to both. */
import { expect, test } from "vitest";
import { createParent } from "../../../src/producer/parent.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a parent sees no events of the parent with its name in another database", async () => {
  const prefix = uniquePrefix();
  const stage = await openStage({ prefix });
  await stage.startWorker();
  const shared = { prefix, parentId: "planner-7", model: "offline-1" };
  const [here, there] = [0, 1].map((database) => {
    const parent = createParent({ ...shared, redisUrl: `${redisUrl()}/${database}` });
    const seen: string[] = [];
    const stop = new AbortController();
    const reading = (async () => {
      for await (const { agent_id } of parent.events({ signal: stop.signal, after: "0" }))
        seen.push(agent_id);
    })();
    closeAtEnd(async () => {
      stop.abort();
      await reading;
      await parent.stop();
    });
    return { parent, seen };
  });
  if (!here || !there) return;
  await Promise.all([here, there].map(({ parent }) => parent.list()));
  // Both have subscribed, whatever the channels are called.
  await until(async () => {
    const names = await stage.redis.pubsub("CHANNELS", `${prefix}:*:events*`);
    const counted = await stage.redis.pubsub("NUMSUB", ...names.map(String));
    return counted.filter((_, n) => n % 2 === 1).reduce((sum: number, each) => sum + Number(each), 0) === 2;
  });
  await here.parent.task({ name: "finder", prompt: "Say hello." });
  await until(() => here.seen.length >= 3);
  expect(there.seen).toEqual([]);
});
