/**
 * Redis away at a call: stopped, frozen, cut off in the middle of an answer. Each call answers or rejects within a
 * second, and afterwards there is nothing or exactly one agent, whichever the error says.
 */
import { describe, expect, test } from "vitest";
import { createClient } from "../../../src/producer/client.ts";
import type { Parent } from "../../../src/producer/parent.ts";
import type { SubagentError } from "../../../src/shared/errors.ts";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { ARE_TIMES_JUDGED } from "../../helpers/figures.ts";
import { refusal, started, testClient, testParent } from "../../helpers/parents.ts";
import { type Proxy as FaultyProxy, startProxy } from "../../helpers/proxy.ts";
import { FSYNC_NEVER, startPrivateRedis, uniquePrefix } from "../../helpers/redis.ts";
import { freePort, type RedisServer } from "../../helpers/redis-server.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";
import { aSecond } from "../../helpers/second.ts";
import { until } from "../../helpers/until.ts";

const address = { tenant: "default", parentId: "planner-7" };

/** The outcome of a call, and with `JUDGE_TIMES=1` whether it took longer than a second; by hand clocks: `redis-call.test.ts`. */
async function timed<T>(call: () => Promise<T>): Promise<{ error?: unknown; value?: T; isLate: boolean }> {
  const second = aSecond();
  try {
    const value = await call();
    return { value, isLate: ARE_TIMES_JUDGED && second.isOver() };
  } catch (error) {
    return { error, isLate: ARE_TIMES_JUDGED && second.isOver() };
  }
}

/** Runs `call` while the `nth` reply from now on is lost with its connection; `then` happens right after the loss. */
async function losing<T>(proxy: FaultyProxy, nth: number, call: () => Promise<T>, then = () => {}) {
  const before = proxy.counts.swallowed;
  const lost = proxy.swallowNthReply(nth);
  const called = timed(call);
  await lost;
  then();
  const outcome = await called;
  expect(proxy.counts.swallowed).toBe(before + 1);
  return outcome;
}

interface Scene {
  server: RedisServer;
  proxy: FaultyProxy;
  parent: Parent;
  prefix: string;
  /** Sees the truth, past the proxy. */
  liveAgents(): Promise<number>;
}

async function scene(): Promise<Scene> {
  const server = await startPrivateRedis({ arguments: FSYNC_NEVER });
  const proxy = await startProxy(server.port);
  const prefix = uniquePrefix();
  const client = testClient({ redisUrl: `redis://127.0.0.1:${proxy.port}`, prefix });
  await started(client);
  const parent = testParent(client);
  const worker = scriptedWorker(server.url, prefix, address);
  return {
    server,
    proxy,
    parent,
    prefix,
    liveAgents: async () => (await worker.store.liveUids(address)).length,
  };
}

describe("when Redis is not there", () => {
  test("every call says so within a second and nothing was done", async () => {
    const redisUrl = `redis://127.0.0.1:${await freePort()}`;
    const parent = testParent(testClient({ redisUrl }));
    const calls = [
      () => parent.spawn({ name: "a" }),
      () => parent.send("a", "hi"),
      () => parent.list(),
      () => parent.get("a"),
      () => parent.destroy("a"),
      () => parent.task({ prompt: "go" }),
    ];
    const refused = () => Promise.all(calls.map((call) => timed<unknown>(call)));
    // The first calls of a process also load their code.
    const first = await refused();
    const second = await refused();
    for (const { error } of [...first, ...second])
      expect(error).toMatchObject(refusal("redis_unavailable", /ECONNREFUSED.*nothing was done/));
    for (const { isLate } of second) expect(isLate).toBe(false);
    await expect(testClient({ redisUrl }).start()).rejects.toMatchObject(refusal("redis_unavailable"));
  });

  test("a spawn is refused while it is stopped, and works by itself when it is back", async () => {
    const { server, parent, liveAgents } = await scene();
    await server.kill();
    // A spawn on a connection whose end has not been noticed may have been done: a read notices it.
    await expect(parent.list()).rejects.toMatchObject({ code: "redis_unavailable" });
    const { error, isLate } = await timed(() => parent.spawn({ name: "a", request_key: "k" }));
    expect(error).toMatchObject({ code: "redis_unavailable", retryable: true, httpStatus: 503 });
    expect(isLate).toBe(false);
    await server.start();
    const receipt = await until(() => parent.spawn({ name: "a", request_key: "k" }).catch(() => undefined));
    expect(receipt.agent_id).toBe("a");
    expect(await liveAgents()).toBe(1);
  });

  test("a wrong address is named at once, with the forms that are right", () => {
    for (const redisUrl of ["", "localhost:6379x", "http://127.0.0.1:6379", "redis://h/x", "unix:"]) {
      expect(() => createClient({ redisUrl })).toThrow(
        expect.objectContaining({
          code: "invalid_config",
          message: expect.stringMatching(/redis:\/\/host:port/),
        }),
      );
    }
  });
});

test("a Redis that swallows what it is sent is told as one that does not answer, however often it is asked", async () => {
  const { proxy, parent } = await scene();
  proxy.pause();
  for (let n = 0; n < 4; n += 1) {
    const { error } = await timed(() => parent.list());
    expect(error).toMatchObject({
      code: "redis_unavailable",
      message: expect.stringMatching(
        /^Redis cannot be reached \((no answer|not connected, no answer) within \d+ ms\): /,
      ),
    });
  }
});

describe("when Redis is frozen", () => {
  test("a spawn rejects within a second; repeated with its key after the thaw it is exactly one agent", async () => {
    const { server, parent, liveAgents } = await scene();
    await parent.list();
    server.freeze();
    const input = { name: "a", request_key: "frozen" };
    const { error, isLate } = await timed(() => parent.spawn(input));
    expect(isLate).toBe(false);
    expect(error).toMatchObject({ code: expect.stringMatching(/^(redis_unavailable|outcome_unknown)$/) });
    const second = await timed(() => parent.list());
    expect(second.error).toMatchObject(refusal("redis_unavailable"));
    expect(second.isLate).toBe(false);
    server.thaw();
    const receipt = await until(() => parent.spawn(input).catch(() => undefined));
    expect(receipt.agent_id).toBe("a");
    expect(await liveAgents()).toBe(1);
  });
});

describe("when an answer is lost on the way", () => {
  test("a spawn is put once more and its receipt is that of a first spawn", async () => {
    const { proxy, parent, liveAgents } = await scene();
    for (let round = 0; round < 30; round += 1) {
      const input = { name: "a", request_key: `k${round}` };
      // The deadline hint and the verb travel in one packet, and so do their replies.
      const { value, error, isLate } = await losing(proxy, 1, () => parent.spawn(input));
      expect(error).toBeUndefined();
      expect(isLate).toBe(false);
      expect(value).toHaveProperty("known", false);
      expect(await parent.spawn(input)).toEqual({ ...value, known: true });
      expect(await liveAgents()).toBe(1);
      await parent.destroy(value?.agent_id ?? "");
    }
  });

  test("a task is put once more and has its wake at once", async () => {
    const { server, proxy, parent, prefix } = await scene();
    const worker = scriptedWorker(server.url, prefix, address);
    // A reader has the doorbell subscribed already, so that the first reply is that to the task's begin.
    void parent.replies().next();
    await until(async () => (await worker.redis.pubsub("CHANNELS", "*doorbell")).length === 1);
    await parent.list();
    const reply = parent.task("go");
    const { value } = await losing(proxy, 1, () => reply.started);
    expect(value).toHaveProperty("known", false);
    const wake = keysUnder(prefix).wakeJob(`${await worker.uidOf("task")}.1`);
    await until(async () => (await worker.redis.exists(wake)) === 1);
    await worker.run("task", { summary: "done" });
    expect(await reply).toMatchObject({ summary: "done" });
  });

  test("a destroy is put once more and says destroyed, not already_ended", async () => {
    const { proxy, parent } = await scene();
    await parent.spawn({ name: "a" });
    // Replies: 1 the look-up, 2 the verb.
    const { value } = await losing(proxy, 2, () => parent.destroy("a"));
    expect(value).toMatchObject({ status: "destroyed" });
  });

  test("and Redis stays away, a spawn is outcome_unknown, names its key, and the same call finds it", async () => {
    const { proxy, parent, liveAgents } = await scene();
    const input = { name: "a", request_key: "k1" };
    const lost = await losing(
      proxy,
      1,
      () => parent.spawn(input),
      () => proxy.blackhole(),
    );
    expect(lost.isLate).toBe(false);
    expect(lost.error).toMatchObject({
      code: "outcome_unknown",
      message: expect.stringMatching(/the same call with request_key "k1" is safe/),
      details: { request_key: "k1" },
    });
    expect(await liveAgents()).toBe(1);
    proxy.heal();
    const receipt = await until(() => parent.spawn(input).catch(() => undefined));
    expect(receipt.agent_id).toBe("a");
    expect(await liveAgents()).toBe(1);
  });

  test("and Redis stays away, a spawn without a key is told the key the library made", async () => {
    const { proxy, parent, liveAgents } = await scene();
    const { error } = await losing(
      proxy,
      1,
      () => parent.spawn({ name: "a" }),
      () => proxy.blackhole(),
    );
    const { code, details } = error as SubagentError;
    expect(code).toBe("outcome_unknown");
    proxy.heal();
    const again = () => parent.spawn({ name: "a", request_key: String(details.request_key) });
    expect((await until(() => again().catch(() => undefined))).agent_id).toBe("a");
    expect(await liveAgents()).toBe(1);
  });

  test("and Redis stays away, a send is outcome_unknown; repeated with its id it is read once", async () => {
    const { server, proxy, parent, prefix } = await scene();
    await parent.spawn({ name: "a" });
    // Replies: 1 the look-up, 2 the deadline hint, 3 the verb.
    const { error, isLate } = await losing(
      proxy,
      3,
      () => parent.send("a", "go", { message_id: "m1" }),
      () => proxy.blackhole(),
    );
    expect(isLate).toBe(false);
    expect(error).toMatchObject({ code: "outcome_unknown", details: { message_id: "m1" } });
    proxy.heal();
    const sent = await until(() => parent.send("a", "go", { message_id: "m1" }).catch(() => undefined));
    expect(sent).toMatchObject({ status: "queued", run: 1 });
    const worker = scriptedWorker(server.url, prefix, address);
    expect((await worker.claim("a")).texts).toEqual(["go"]);
  });

  test("and Redis stays away, a task is outcome_unknown; repeated with its key it is one agent", async () => {
    const { server, proxy, parent, prefix, liveAgents } = await scene();
    const input = { prompt: "go", request_key: "t1" };
    const worker = scriptedWorker(server.url, prefix, address);
    // A reader has the doorbell subscribed already, so that the first reply is that to the task's begin.
    const reading = parent.replies();
    void reading.next();
    await until(async () => (await worker.redis.pubsub("CHANNELS", "*doorbell")).length === 1);
    await parent.list();
    await parent.list();
    // Reply 1: the deadline hint and the verb, which carries the first message.
    const lost = await losing(
      proxy,
      1,
      () => parent.task(input),
      () => proxy.blackhole(),
    );
    expect(lost.error).toMatchObject({ code: "outcome_unknown", details: { request_key: "t1" } });
    proxy.heal();
    await until(() => parent.list().catch(() => undefined));
    const reply = parent.task(input);
    expect(await worker.run("task", { summary: "done" })).toEqual(["go"]);
    expect(await reply).toMatchObject({ summary: "done" });
    expect(await liveAgents()).toBe(0);
  });

  test("1,000 spawns over lost answers never exceed the quota", async () => {
    const server = await startPrivateRedis();
    const proxy = await startProxy(server.port);
    const prefix = uniquePrefix();
    const clients = Array.from({ length: 50 }, () =>
      testClient({ redisUrl: `redis://127.0.0.1:${proxy.port}`, prefix }),
    );
    const parents = clients.map((client) => testParent(client));
    await Promise.all(clients.map(started));
    proxy.swallowEveryNthReply(10);
    const codes = new Set<string>();
    const spawnTwenty = async (parent: Parent) => {
      for (let i = 0; i < 20; i += 1) {
        await parent.spawn({ name: "a" }).catch((error: SubagentError) => void codes.add(error.code));
      }
    };
    await Promise.all(parents.map(spawnTwenty));
    proxy.swallowEveryNthReply(undefined);
    expect(
      [...codes].filter((code) => !/quota_exceeded|redis_unavailable|outcome_unknown/.test(code)),
    ).toEqual([]);
    expect(proxy.counts.swallowed).toBeGreaterThan(0);
    const worker = scriptedWorker(server.url, prefix, address);
    expect(await worker.store.liveUids(address)).toHaveLength(10);
  });

  test("an ack that was put twice still says whether it was the first", async () => {
    const { proxy, parent } = await scene();
    const replies = parent.replies();
    for (let round = 0; round < 20; round += 1) {
      const { agent_id } = await until(() => parent.spawn({ name: "a" }).catch(() => undefined));
      await until(() => parent.destroy(agent_id).catch(() => undefined));
      const { value: entry } = await replies.next();
      const acked = await losing(proxy, 1, () => entry.ack());
      expect(acked.isLate).toBe(false);
      expect(acked.value).toBe(true);
      expect(await entry.ack()).toBe(false);
    }
  });
});

test("a process too busy to read its answer in time keeps its connection and gets the answer", async () => {
  const server = await startPrivateRedis();
  const prefix = uniquePrefix();
  const client = testClient({ redisUrl: server.url, prefix });
  await started(client);
  const parent = testParent(client);
  const { redis } = scriptedWorker(server.url, prefix, address);
  const connection = async () =>
    /id=(\d+) .*name=subagent-queue-producer /.exec(String(await redis.client("LIST")))?.[1];
  const before = await connection();
  const list = parent.list();
  // The question leaves within a few microtasks; its answer then lies in the socket while the patience runs out.
  for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700);
  expect(await list).toEqual([]);
  expect(await connection()).toBe(before);
});

test("calls that wait in line for longer than a call may take are not refused while Redis answers others", async () => {
  const { parent, proxy } = await scene();
  await parent.list();
  proxy.setLatency(100);
  // Six times as many as are let through at once: the last ones wait for five answers, each 200 ms away.
  const lists = Array.from({ length: 6 * 256 }, () => parent.list());
  expect((await Promise.all(lists)).every((list) => list.length === 0)).toBe(true);
});

describe("a waiting task", () => {
  test("outlives a restart of Redis and gets its reply", async () => {
    const { server, parent } = await scene();
    const reply = parent.task({ prompt: "go" });
    await until(async () => (await parent.list())[0]?.status === "queued");
    await server.kill();
    await server.start();
    await until(() => parent.destroy("task").catch(() => undefined));
    expect(await reply).toMatchObject({ stop_reason: "destroyed" });
  });
});

test("an ack of new replies that took nothing rejects, and the next one takes what is left", async () => {
  const server = await startPrivateRedis();
  const proxy = await startProxy(server.port);
  const client = testClient({ redisUrl: `redis://127.0.0.1:${proxy.port}` });
  await started(client);
  const parent = testParent(client);
  for (const name of ["a", "b"]) {
    await parent.spawn({ name });
    await parent.destroy(name);
  }
  const news = await parent.newReplies();
  expect(news.entries).toHaveLength(2);
  proxy.refuse();
  await expect(news.ack()).rejects.toMatchObject({ retryable: true });
  proxy.heal();
  await started(client);
  expect((await parent.newReplies()).entries).toHaveLength(2);
  await news.ack();
  await news.ack();
  expect((await parent.newReplies()).entries).toEqual([]);
});
