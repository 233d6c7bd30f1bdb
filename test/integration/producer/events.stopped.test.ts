/** Guarantee: a watch whose parent stops before it has begun leaves nothing behind in the client that the parent shares. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { testClient, testParent } from "../../helpers/parents.ts";
import { uniquePrefix } from "../../helpers/redis.ts";

test("a parent that stops while its client is being opened listens to no events", async () => {
  const prefix = uniquePrefix();
  const client = testClient({ prefix });
  const parent = testParent(client);
  const events = parent.events();
  await parent.stop();
  expect(await events.next()).toEqual({ done: true, value: undefined });
  const { subscriber, call, redis } = await internalsOf(client).open();
  const channel = keysUnder(prefix).parent({ tenant: "default", parentId: "planner-7" }).events;
  // A watch of another channel that is confirmed: what was asked of the connection before is done.
  await new Promise<void>((resolve) => {
    subscriber.watch(`${prefix}:other`, { onMessage: () => {}, onGap: () => resolve(), onStop: () => {} });
  });
  expect(await call(({ read }) => read(() => redis.pubsub("NUMSUB", channel)))).toEqual([channel, 0]);
});
