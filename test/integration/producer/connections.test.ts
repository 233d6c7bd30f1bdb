import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import type { ReceivedEntry } from "../../../src/producer/replies/parent-channel.ts";
import { SLOW_POLL_MS } from "../../../src/producer/subscriber.ts";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import type { Reply } from "../../../src/shared/protocol/reply.ts";
import { closeRedis, openRedis, type RedisClient } from "../../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { refusal, started, testClient, testParent } from "../../helpers/parents.ts";
import { startProxy } from "../../helpers/proxy.ts";
import { startPrivateRedis, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";
import { until } from "../../helpers/until.ts";

const address = { tenant: "default", parentId: "planner-7" };

function observer(url: string): RedisClient {
  const redis = openRedis(url, "worker");
  closeAtEnd(() => closeRedis(redis));
  return redis;
}

/** How many connections of a client are open, by role. */
async function connections(redis: RedisClient): Promise<{ producer: number; subscriber: number }> {
  const list = String(await redis.client("LIST"));
  const count = (role: string) =>
    list.split("\n").filter((line) => line.includes(`name=subagent-queue-${role} `)).length;
  return { producer: count("producer"), subscriber: count("subscriber") };
}

test("300 parents that spawn, send, read, listen and wait share exactly two connections", async () => {
  const server = await startPrivateRedis();
  const redis = observer(server.url);
  const prefix = uniquePrefix();
  const client = testClient({ redisUrl: server.url, prefix });
  const parents = Array.from({ length: 300 }, (_, i) => testParent(client, { parentId: `p${i}` }));
  const firsts: Promise<IteratorResult<ReceivedEntry>>[] = [];
  const tasks: Promise<Reply>[] = [];
  const waits: Promise<Reply>[] = [];
  for (const parent of parents) {
    firsts.push(parent.replies().next());
    void parent.events().next();
    tasks.push(parent.task({ prompt: "go" }));
    await parent.spawn({ name: "a" });
    await parent.spawn({ name: "b" });
    waits.push(parent.waitAny(["b"]));
  }
  expect(await connections(redis)).toEqual({ producer: 1, subscriber: 1 });

  for (const parent of parents) {
    await until(async () => (await parent.list()).length === 3);
    await parent.destroy("a");
    await parent.destroy("b");
    await parent.destroy("task");
  }
  for (const reply of await Promise.all(tasks)) expect(reply).toMatchObject({ agent_id: "task" });
  for (const reply of await Promise.all(waits)) expect(reply).toMatchObject({ agent_id: "b" });
  for (const { value } of await Promise.all(firsts)) expect(value).toMatchObject({ agent_id: "a" });
  expect(await connections(redis)).toEqual({ producer: 1, subscriber: 1 });
  await client.stop();
  await until(async () => {
    const { producer, subscriber } = await connections(redis);
    return producer + subscriber === 0;
  });
});

test("nothing is connected before the first use, and after stop everything refuses", async () => {
  const server = await startPrivateRedis();
  const redis = observer(server.url);
  const client = testClient({ redisUrl: server.url });
  const parent = testParent(client);
  expect(await connections(redis)).toEqual({ producer: 0, subscriber: 0 });
  await started(client);
  await client.start();
  expect(await connections(redis)).toEqual({ producer: 1, subscriber: 1 });
  await client.stop();
  await client.stop();
  await expect(parent.spawn({ name: "a" })).rejects.toMatchObject(refusal("closed"));
  await expect(client.start()).rejects.toMatchObject(refusal("closed"));
});

test("what begins to read or to wait in the moment of the stop ends, too", async () => {
  const client = testClient();
  const parent = testParent(client);
  const reads = [parent.replies().next(), parent.events().next()];
  const open = await internalsOf(client).open();
  // As of a task whose spawn is answered behind the stop.
  const reservation = open.channels.reserve(address, "u");
  await client.stop();
  for (const read of reads) expect(await read).toEqual({ done: true, value: undefined });
  await expect(reservation.wait(1, "even_if_acked")).rejects.toMatchObject(refusal("closed"));
  const late = open.channels.reserve(address, "v");
  await expect(late.wait(1, { spawnedAtMs: 1 })).rejects.toMatchObject(refusal("closed"));
});

test("a fresh client that is stopped ends what has just begun to read", async () => {
  for (const begin of ["replies", "events"] as const) {
    const client = testClient();
    const next = testParent(client)[begin]().next();
    await client.stop();
    expect(await next).toEqual({ done: true, value: undefined });
  }
});

test("a parent without a client makes its own and closes it", async () => {
  const server = await startPrivateRedis();
  const redis = observer(server.url);
  const { createParent } = await import("../../../src/index.ts");
  const prefix = uniquePrefix();
  const parent = createParent({ parentId: "p", redisUrl: server.url, prefix, model: "offline-1" });
  closeAtEnd(() => parent.stop());
  await parent.spawn({ name: "a" });
  expect(await redis.exists(keysUnder(prefix).deadlines)).toBe(1);
  expect(await connections(redis)).toEqual({ producer: 1, subscriber: 0 });
  await parent.stop();
  await until(async () => (await connections(redis)).producer === 0);
});

test("tasks one after the other share one subscription, which ends at the first slow tick without one, and read no stream", async () => {
  const clock = handClock();
  const server = await startPrivateRedis();
  const prefix = uniquePrefix();
  const client = await started(testClient({ redisUrl: server.url, prefix, clock }));
  const parent = testParent(client);
  const worker = scriptedWorker(server.url, prefix, address);
  const { doorbell } = worker.store.keys.parent(address);
  const subscribed = async () => ((await worker.redis.pubsub("NUMSUB", doorbell)) as unknown[])[1];
  const sent = async () => {
    const stats = String(await worker.redis.info("commandstats"));
    const calls = (command: string) =>
      Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
    return [calls("subscribe"), calls("unsubscribe"), calls("xrange")];
  };
  const run = async (name: string) => {
    const task = parent.task({ name, prompt: name });
    await until(async () => (await subscribed()) === 1);
    await worker.run(name);
    await task;
  };
  await run("a");
  const afterFirst = await sent();
  expect(afterFirst.slice(0, 2)).toEqual([1, 0]);
  for (const name of ["b", "c", "d"]) await run(name);
  expect(await sent()).toEqual(afterFirst);
  // The reservation of the last task stands until its ack is answered.
  await until(async () => {
    clock.advance(SLOW_POLL_MS);
    return (await subscribed()) === 0;
  });
});

test("a reply whose doorbell was lost is found by the slow poll", async () => {
  const clock = handClock();
  const server = await startPrivateRedis();
  const prefix = uniquePrefix();
  const client = testClient({ redisUrl: server.url, prefix, clock });
  const parent = testParent(client);
  const worker = scriptedWorker(server.url, prefix, address);
  const { replies, doorbell } = worker.store.keys.parent(address);
  await parent.spawn({ name: "a" });
  await parent.destroy("a");
  const reader = parent.replies();
  const first = await reader.next();
  await until(async () => ((await worker.redis.pubsub("NUMSUB", doorbell)) as unknown[])[1] === 1);

  const [entry] = await worker.redis.xrange(replies, "-", "+");
  let arrived = false;
  const second = reader.next().then((result) => {
    arrived = true;
    return result;
  });
  // What the first look, which every wait begins with, could still have seen is over when the connection has answered: that
  // look waits for the one before it, so the connection is asked twice.
  await parent.list();
  await parent.list();
  await worker.redis.xadd(replies, "*", ...(entry?.[1] ?? []));
  await parent.list();
  expect(arrived).toBe(false);
  clock.advance(SLOW_POLL_MS);
  expect((await second).value).toMatchObject({ reply_id: first.value.reply_id });
});

test("a subscriber that is cut off comes back, and a reader sees what came meanwhile", async () => {
  const server = await startPrivateRedis();
  const redis = observer(server.url);
  const parent = testParent(testClient({ redisUrl: server.url }));
  const reader = parent.replies();
  const first = reader.next();
  await until(async () => (await connections(redis)).subscriber === 1);
  await redis.client("KILL", "TYPE", "pubsub");
  await parent.spawn({ name: "a" });
  await parent.destroy("a");
  expect((await first).value).toMatchObject({ agent_id: "a" });
});

test("a subscriber in a black hole is given up at the second slow tick and connects anew", async () => {
  const clock = handClock();
  const server = await startPrivateRedis();
  const proxy = await startProxy(server.port);
  const client = testClient({ redisUrl: `redis://127.0.0.1:${proxy.port}`, clock });
  await started(client);
  const parent = testParent(client);
  void parent.events().next();
  const redis = observer(server.url);
  await until(async () => ((await redis.pubsub("CHANNELS")) as string[]).length === 1);
  const before = proxy.counts.accepted;
  proxy.blackhole();
  clock.advance(SLOW_POLL_MS);
  expect(proxy.counts.accepted).toBe(before);
  clock.advance(SLOW_POLL_MS);
  await until(() => proxy.counts.accepted > before);
  proxy.heal();
  await until(async () => ((await redis.pubsub("CHANNELS")) as string[]).length === 1);
  await client.stop();
  // A read that was under way is refused when the socket has closed, a moment later.
  await until(() => clock.pending === 0, { what: "every timer to be taken back" });
});
