/** Guarantee: whoever watches events is told the end of its parent or client, and a watch that is over listens no more. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { testClient, testParent } from "../../helpers/parents.ts";
import { uniquePrefix } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";

const OVER = { done: true, value: undefined };

/** A watch that has heard an event; `publish` tells how many connections of a node heard one. */
async function scene() {
  const prefix = uniquePrefix();
  const client = testClient({ prefix });
  const parent = testParent(client);
  const { redis } = await internalsOf(client).open();
  const channel = keysUnder(prefix).parent({ tenant: "default", parentId: "planner-7" }).events;
  const delta = { v: 1, type: "text_delta", agent_id: "a", name: "a", run: 1, turn: 1, text: "a word" };
  const publish = () => redis.publish(channel, JSON.stringify(delta));
  const events = parent.events();
  let isHeard = false;
  void events.next().then(() => {
    isHeard = true;
  });
  await until(async () => {
    await publish();
    return isHeard;
  });
  return { client, parent, events, publish };
}

/** Reads on to the end. */
async function rest(events: AsyncIterableIterator<unknown>): Promise<unknown> {
  for (;;) {
    const each = await events.next();
    if (each.done) return each;
  }
}

test("a watch that is over unsubscribes from its parent's events", async () => {
  const { events, publish } = await scene();
  await events.return?.();
  await until(async () => (await publish()) === 0);
});

test("a watch ends with its parent", async () => {
  const { parent, events } = await scene();
  const end = rest(events);
  await parent.stop();
  expect(await end).toEqual(OVER);
});

test("a watch ends with its client", async () => {
  const { client, events } = await scene();
  const end = rest(events);
  await client.stop();
  expect(await end).toEqual(OVER);
});
