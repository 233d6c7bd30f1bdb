import { expect, test } from "vitest";
import { watchParent } from "../../../src/producer/events.ts";
import { contextOf } from "../../../src/producer/parent.ts";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { redisNowMs } from "../../../src/shared/redis/redis-time.ts";
import { testClient, testParent } from "../../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";
import { until } from "../../helpers/until.ts";

const address = { tenant: "default", parentId: "planner-7" };

function scene() {
  const prefix = uniquePrefix();
  const client = testClient({ prefix });
  return { prefix, client, parent: testParent(client), worker: scriptedWorker(redisUrl(), prefix, address) };
}

test("a reader of events that was away reads on from its number and gets each step once", async () => {
  const { parent, worker } = scene();
  for (const name of ["a", "b"]) {
    await parent.spawn({ name });
    await parent.send(name, "go");
    await worker.run(name);
  }
  const all = parent.events({ after: "0" });
  const first = (await all.next()).value;
  const second = (await all.next()).value;
  expect(first).toMatchObject({ type: "ended", agent_id: "a", status: "succeeded", at: expect.any(String) });
  expect(second).toMatchObject({ type: "ended", agent_id: "b" });
  const later = parent.events({ after: first.number });
  expect((await later.next()).value).toEqual(second);

  await parent.spawn({ name: "c" });
  await parent.destroy("c");
  const third = (await all.next()).value;
  expect(third).toMatchObject({ type: "ended", agent_id: "c", status: "cancelled" });
  expect((await later.next()).value).toEqual(third);
});

test("a run that a parent begins after it asked for events finds them watched, subscribed or not", async () => {
  const { prefix, worker } = scene();
  // This client may subscribe to nothing.
  await worker.redis.acl("SETUSER", prefix, "on", ">secret", "~*", "resetchannels", "+@all");
  const url = redisUrl().replace("//", `//${prefix}:secret@`);
  const parent = testParent(testClient({ prefix, redisUrl: url }));
  const events = parent.events();
  await parent.spawn({ name: "a" });
  expect(await worker.redis.exists(keysUnder(prefix).parent(address).watching)).toBe(1);
  await events.return?.();
  await worker.redis.acl("DELUSER", prefix);
});

test("what is told before a reader has begun to read takes nothing from it", async () => {
  const { parent, worker } = scene();
  for (const name of ["a", "b"]) {
    await parent.spawn({ name });
    await parent.send(name, "go");
    await worker.run(name);
  }
  const newest = (await parent.timeline("b")).at(-1)?.number ?? "";
  const context = contextOf(parent);
  const client = await context.open();
  const told = JSON.stringify({ v: 1, agent_id: "b", name: "b", n: newest, r: 1, e: [] });
  // As for a channel that another reader has subscribed already.
  const watch: typeof client.subscriber.watch = (channel, watcher) => {
    watcher.onMessage(told);
    return client.subscriber.watch(channel, watcher);
  };
  const open = async () => ({ ...client, subscriber: { ...client.subscriber, watch } });
  const events = watchParent({ ...context, open }, { after: "0" });
  expect((await events.next()).value).toMatchObject({ type: "ended", agent_id: "a" });
  await events.return?.();
});

test("the timeline of an agent is what is kept of its runs", async () => {
  const { parent, worker } = scene();
  await parent.spawn({ name: "a" });
  await parent.send("a", "go");
  await worker.run("a");
  const timeline = await parent.timeline("a");
  expect(timeline.at(-1)).toMatchObject({
    type: "ended",
    run: 1,
    number: expect.stringMatching(/^\d+-\d+$/),
  });
  await expect(parent.timeline("nobody")).rejects.toMatchObject({ code: "unknown_agent" });
});

test("a client lists the parents of its installation, the last active first", async () => {
  const { client, parent, worker } = scene();
  const other = testParent(client, { parentId: "other" });
  await parent.spawn({ name: "a" });
  // Activity is told to the millisecond.
  const spawnedAt = await redisNowMs(worker.redis);
  await until(async () => (await redisNowMs(worker.redis)) > spawnedAt);
  await other.spawn({ name: "a" });
  expect((await client.parents()).map(({ parent_id }) => parent_id)).toEqual(["other", "planner-7"]);
  expect(await client.parents({ since: new Date(Date.now() + 3_600_000) })).toEqual([]);
  await worker.redis.zadd(worker.store.keys.parents, "+inf", "default/odd");
  const [odd, ...others] = await client.parents();
  expect(odd).toMatchObject({ parent_id: "odd", active_at: "1970-01-01T00:00:00.000Z" });
  expect(others).toHaveLength(2);
});
