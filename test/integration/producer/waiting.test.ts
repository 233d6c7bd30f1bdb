/** Guarantee: a wait hands over what it takes out of the channel, and takes nothing it does not hand over. */
import { getEventListeners } from "node:events";
import { describe, expect, test } from "vitest";
import { type Client, internalsOf } from "../../../src/producer/client.ts";
import { createReplyChannels } from "../../../src/producer/replies/client-channels.ts";
import { SLOW_POLL_MS, type Subscriber, type Watcher } from "../../../src/producer/subscriber.ts";
import { FIRST_RUN } from "../../../src/shared/protocol/keys.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { holdingBack, type Latch, latch } from "../../helpers/latch.ts";
import { refusal, started, testClient, testParent } from "../../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";
import { until } from "../../helpers/until.ts";

const address = { tenant: "default", parentId: "planner-7" };

async function scene(...names: string[]) {
  const prefix = uniquePrefix();
  const client = testClient({ prefix });
  const worker = scriptedWorker(redisUrl(), prefix, address);
  const parent = testParent(client);
  for (const name of names) {
    await parent.spawn({ name });
    await parent.send(name, `work of ${name}`);
  }
  const unacked = () => worker.redis.xlen(worker.store.keys.parent(address).replies);
  return { prefix, client, parent, worker, unacked };
}

describe("waitAny", () => {
  test("resolves with whoever is over first, acked, and leaves the others' replies to others", async () => {
    const { parent, worker, unacked } = await scene("a", "b");
    const first = parent.waitAny(["a", "b"]);
    await worker.run("b");
    expect(await first).toMatchObject({ agent_id: "b", summary: "work of b" });
    await worker.run("a");
    expect(await unacked()).toBe(1);
    expect((await parent.replies().next()).value).toMatchObject({ agent_id: "a" });
  });

  test("finds a reply that was there before, and says so when another reader has taken it", async () => {
    const { parent, worker } = await scene("a");
    await worker.run("a");
    expect(await parent.waitAny(["a"])).toMatchObject({ summary: "work of a" });
    await expect(parent.waitAny(["a"])).rejects.toMatchObject(refusal("agent_ended", /acked/));
  });

  test("takes one of several replies that were there before", async () => {
    const { parent, worker, unacked } = await scene("a", "b");
    for (const name of ["a", "b"]) await worker.run(name);
    await parent.waitAny(["a", "b"]);
    expect(await unacked()).toBe(1);
  });

  test("says so, too, when the reply of an agent that goes on living was taken", async () => {
    const { parent, worker } = await scene();
    await parent.spawn({ name: "k", keep_alive: true });
    await parent.send("k", "one");
    await worker.run("k", { keepAlive: true });
    await parent.waitAny(["k"]);
    await expect(parent.waitAny(["k"])).rejects.toMatchObject(refusal("agent_ended", /acked/));
  });

  test("resolves with the entry of an agent that is destroyed", async () => {
    const { parent } = await scene("a");
    const ended = parent.waitAny(["a"]);
    await parent.destroy("a");
    expect(await ended).toMatchObject({ kind: "ended", stop_reason: "destroyed" });
  });

  test("waits for the newest run of an agent that is kept alive", async () => {
    const { parent, worker } = await scene();
    await parent.spawn({ name: "k", keep_alive: true });
    await parent.send("k", "one");
    await worker.run("k", { keepAlive: true });
    expect(await parent.waitAny(["k"])).toMatchObject({ run: 1, agent_status: "idle" });
    await parent.send("k", "two");
    const second = parent.waitAny(["k"]);
    await until(async () => (await worker.queued()).includes("k"));
    await parent.destroy("k");
    expect(await second).toMatchObject({ run: 2, kind: "ended" });
  });

  test("answers with the run that is going on, not with the reply of an earlier one that nobody has acked", async () => {
    const { parent, worker } = await scene();
    await parent.spawn({ name: "k", keep_alive: true });
    await parent.send("k", "one");
    await worker.run("k", { keepAlive: true });
    await parent.send("k", "two");
    const second = parent.waitAny(["k"]);
    await parent.destroy("k");
    expect(await second).toMatchObject({ run: 2, kind: "ended" });
    expect((await parent.replies().next()).value).toMatchObject({ run: 1, summary: "one" });
  });

  test("leaves the reply of an earlier run to a reader that reads on meanwhile", async () => {
    const { parent, worker } = await scene("b");
    await parent.spawn({ name: "k", keep_alive: true });
    await parent.send("k", "one");
    await worker.run("k", { keepAlive: true });
    await parent.send("k", "two");
    const second = parent.waitAny(["k"]);
    const { doorbell } = worker.store.keys.parent(address);
    await until(async () => Number((await worker.redis.pubsub("NUMSUB", doorbell))[1]) === 1);
    const next = parent.replies().next();
    await parent.destroy("k");
    expect(await second).toMatchObject({ run: 2 });
    await worker.run("b");
    expect((await next).value).toMatchObject({ agent_id: "k", run: 1 });
  });

  test("keeps what it has acked from a reader also while another wait for the agent goes on", async () => {
    const { parent, worker } = await scene("a", "b");
    const stop = new AbortController();
    const all = parent.waitAll(["a", "b"], { signal: stop.signal });
    const first = parent.waitAny(["a"]);
    const next = parent.replies().next();
    await worker.run("a");
    expect(await first).toMatchObject({ agent_id: "a" });
    stop.abort("enough");
    await expect(all).rejects.toBe("enough");
    await worker.run("b");
    expect((await next).value).toMatchObject({ agent_id: "b" });
  });

  test("ends with its parent also when that stops before the wait has found its agents", async () => {
    const { parent } = await scene("a");
    const waits = [parent.waitAny(["a"]), parent.newReplies({ timeout_ms: 60_000 })];
    const ended = Promise.allSettled(waits);
    await parent.stop();
    expect(await ended).toMatchObject([
      { status: "rejected", reason: refusal("closed") },
      { status: "fulfilled", value: { entries: [] } },
    ]);
  });

  test("refuses agents that are not there, and an empty list", async () => {
    const { parent } = await scene();
    await expect(parent.waitAny(["nobody"])).rejects.toMatchObject(refusal("unknown_agent"));
    await expect(parent.waitAny([])).rejects.toMatchObject(refusal("invalid_input", /at least one/));
    await expect(parent.waitAny(["a"], { timeout_ms: -1 })).rejects.toMatchObject(refusal("invalid_input"));
  });
});

describe("waitAll", () => {
  test("resolves with a reply for each id in their order, also for one that comes twice, and the channel is empty", async () => {
    const { parent, worker, unacked } = await scene("a", "b", "c");
    const all = parent.waitAll(["c", "a", "b", "a"]);
    for (const name of ["b", "a", "c"]) await worker.run(name);
    expect((await all).map((reply) => reply.agent_id)).toEqual(["c", "a", "b", "a"]);
    expect(await unacked()).toBe(0);
  });

  test("has taken nothing when its time is up, its signal aborts or the parent stops", async () => {
    const { prefix, parent, worker, unacked } = await scene("a", "b");
    await worker.run("a");
    await expect(parent.waitAll(["a", "b"], { timeout_ms: 20 })).rejects.toMatchObject(refusal("timed_out"));
    const abort = new AbortController();
    const atOnce = parent.waitAll(["a", "b"], { signal: abort.signal });
    abort.abort("enough");
    await expect(atOnce).rejects.toBe("enough");
    const later = new AbortController();
    const underWay = parent.waitAll(["a", "b"], { signal: later.signal });
    const { doorbell } = worker.store.keys.parent(address);
    await until(async () => Number((await worker.redis.pubsub("NUMSUB", doorbell))[1]) === 1);
    later.abort("enough");
    await expect(underWay).rejects.toBe("enough");
    const other = testParent(testClient({ prefix }));
    const stopped = other.waitAll(["a", "b"]);
    await until(async () => (await other.list()).length === 1);
    await other.stop();
    await expect(stopped).rejects.toMatchObject(refusal("closed"));
    expect(await unacked()).toBe(1);
    expect((await parent.replies().next()).value).toMatchObject({ agent_id: "a" });
  });
});

/** Opens when the client looks for what is to come: it has asked for the records then, and found the runs under way. */
async function looksAhead(client: Client): Promise<Latch<void>> {
  const looked = latch();
  const { replies } = await internalsOf(client).open();
  const page = replies.page.bind(replies);
  replies.page = (...where) => {
    looked.open();
    return page(...where);
  };
  return looked;
}

test("a wait that is over has left its signal", async () => {
  const { parent, worker } = await scene("a");
  await worker.run("a");
  const { signal } = new AbortController();
  await parent.waitAny(["a"], { signal });
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

test("waits get replies that another process acks meanwhile, though no doorbell rang", async () => {
  const { prefix, worker, unacked } = await scene("a", "b");
  const slowTick = holdingBack(SLOW_POLL_MS);
  const client = await started(testClient({ prefix, clock: slowTick.clock }));
  const others = await started(testClient({ prefix, clock: slowTick.clock }));
  const looked = [await looksAhead(client), await looksAhead(others)];
  const any = testParent(client).waitAny(["a"]);
  const all = testParent(others).waitAll(["a", "b"]);
  await Promise.all(looked.map(({ opened }) => opened));
  for (const name of ["a", "b"]) await worker.run(name, { unheard: true });
  const { entries, ack } = await testParent(testClient({ prefix })).newReplies();
  expect(entries).toHaveLength(2);
  await ack();
  expect(await unacked()).toBe(0);
  // Only the slow tick is left, and the stream is empty.
  slowTick.release();
  expect(await any).toMatchObject({ agent_id: "a", summary: "work of a" });
  expect(await all).toMatchObject([
    { agent_id: "a", summary: "work of a" },
    { agent_id: "b", summary: "work of b" },
  ]);
});

test("looks for many agents as so many calls, so that no number of them runs out of the time of one", async () => {
  const { client, parent } = await scene();
  const names = Array.from({ length: 300 }, (_, i) => `a${i}`);
  for (const name of names) {
    await parent.spawn({ name });
    await parent.destroy(name);
  }
  const { store } = await internalsOf(client).open();
  const { uidOf } = store;
  let [pending, most] = [0, 0];
  store.uidOf = async (...asked) => {
    pending += 1;
    most = Math.max(most, pending);
    return uidOf(...asked).finally(() => {
      pending -= 1;
    });
  };
  expect(await parent.waitAll(names)).toHaveLength(names.length);
  expect(most).toBeLessThan(names.length);
});

/** A subscriber whose gaps the test makes. */
function subscriberByHand() {
  const watchers = new Set<Watcher>();
  const subscriber: Subscriber = {
    watch(_channel, watcher) {
      watchers.add(watcher);
      return () => void watchers.delete(watcher);
    },
    start: async () => true,
    stop() {},
  };
  const gap: Watcher["onGap"] = (cause) => {
    for (const { onGap } of watchers) onGap(cause);
  };
  return { subscriber, gap };
}

test("a look that takes longer than a slow tick is not begun again by it, but by a gap", async () => {
  const { client } = await scene("a");
  const open = await internalsOf(client).open();
  const uid = (await open.store.uidOf(address, "a")) ?? "";
  const { subscriber, gap } = subscriberByHand();
  let looks = 0;
  const answered = latch();
  const channels = createReplyChannels({
    ...open,
    subscriber,
    read: async (send) => {
      looks += 1;
      await answered.opened;
      return open.read(send);
    },
  });
  const waited = channels.reserve(address, uid).wait(FIRST_RUN, "only_if_unacked");
  gap("tick");
  gap("tick");
  expect(looks).toBe(1);
  gap("subscribed");
  expect(looks).toBe(2);
  answered.open();
  channels.stop();
  await expect(waited).rejects.toMatchObject(refusal("closed"));
});

test("a gap of thousands of waits leaves most of the client's calls to others, and looks at each wait once", async () => {
  const WAITS = 3_000;
  const { client } = await scene("a");
  const open = await internalsOf(client).open();
  const uid = (await open.store.uidOf(address, "a")) ?? "";
  const { subscriber, gap } = subscriberByHand();
  const answered = latch();
  let [underWay, calls] = [0, 0];
  const channels = createReplyChannels({
    ...open,
    subscriber,
    read: async (send) => {
      underWay += 1;
      calls += 1;
      await answered.opened;
      return open.read(send).finally(() => {
        underWay -= 1;
      });
    },
  });
  const waited = Array.from({ length: WAITS }, () =>
    channels.reserve(address, uid).wait(FIRST_RUN, { spawnedAtMs: Date.now() }),
  );
  for (const cause of ["tick", "tick", "subscribed", "tick", "subscribed"] as const) gap(cause);
  expect(underWay).toBeGreaterThan(0);
  // A quarter of the client's calls, and the read that follows a gap.
  expect(underWay).toBeLessThanOrEqual(65);
  answered.open();
  await until(() => underWay === 0 && calls > WAITS);
  // A look asks for the record, and then for new entries.
  expect(calls).toBeLessThan(2 * WAITS + 200);
  channels.stop();
  const ended = await Promise.allSettled(waited);
  expect(ended.every(({ status }) => status === "rejected")).toBe(true);
});

test("a wait that is over leaves no timer", async () => {
  const clock = handClock();
  const prefix = uniquePrefix();
  const client = await started(testClient({ prefix, clock }));
  const parent = testParent(client);
  await parent.spawn({ name: "a" });
  await parent.send("a", "work");
  // A client of a cluster has timers of its own.
  const before = clock.pending;
  const waited = parent.waitAny(["a"], { timeout_ms: 60_000 });
  await scriptedWorker(redisUrl(), prefix, address).run("a");
  await waited;
  // The first slow tick without a reader ends the subscription, and itself.
  clock.advance(SLOW_POLL_MS);
  expect(clock.pending).toBe(before);
});

describe("newReplies", () => {
  test("gives what has come as data, again and again until it is acked", async () => {
    const { parent, worker } = await scene("a", "b");
    expect(await parent.newReplies()).toMatchObject({ text: "", entries: [] });
    await worker.run("a", { interim: "half" });
    await parent.newReplies();
    const news = await parent.newReplies();
    expect(news.entries.map((entry) => entry.kind)).toEqual(["message", "reply"]);
    expect(news.text).toMatch(
      /<sub_agent_message agent_id="a" run="1" boundary="(\w{12})">\nhalf\n<\/sub_agent_message boundary="\1">/,
    );
    expect(news.text).toMatch(/\nwork of a\n<\/sub_agent_reply boundary="\w{12}">/);
    await news.ack();
    expect((await parent.newReplies()).entries).toEqual([]);
  });

  test("of one agent is of that agent alone", async () => {
    const { parent, worker } = await scene("a", "b");
    for (const name of ["a", "b"]) await worker.run(name);
    const [check] = parent.tools(["check_sub_agent"]);
    const told = JSON.stringify(await check?.run({ agent_id: "b" }));
    expect(told).toContain("work of b");
    expect(told).not.toContain("work of a");
  });

  test("gives 20 entries at a time, and not those that a waiter has reserved", async () => {
    const { parent, worker } = await scene("a", "b");
    for (let n = 1; n <= 11; n++) {
      await parent.spawn({ name: `talker_${n}` });
      await parent.send(`talker_${n}`, "talk");
      await worker.run(`talker_${n}`, { interim: "so far" });
    }
    expect((await parent.newReplies()).entries).toHaveLength(20);
    await (await parent.newReplies()).ack();
    const reserved = parent.waitAll(["a", "b"]);
    await worker.run("a");
    const { entries } = await parent.newReplies();
    expect(entries.map(({ agent_id }) => agent_id)).toEqual(["talker_11", "talker_11"]);
    await worker.run("b");
    await reserved;
  });

  test("waits for the first entry, leaves alone what a waiter has reserved, and gives up in time", async () => {
    const { parent, worker } = await scene("a", "b");
    const reserved = parent.waitAny(["a"]);
    const news = parent.newReplies({ timeout_ms: 15_000 });
    await worker.run("a");
    await worker.run("b");
    expect((await news).entries.map((entry) => entry.agent_id)).toEqual(["b"]);
    await (await news).ack();
    expect((await reserved).agent_id).toBe("a");
    expect((await parent.newReplies({ timeout_ms: 20 })).entries).toEqual([]);
  });

  test.for([-1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31])(
    "refuses to wait for %d ms",
    async (timeout_ms) => {
      const { parent } = await scene();
      await expect(parent.newReplies({ timeout_ms })).rejects.toMatchObject(
        refusal("invalid_input", /newReplies refused.*timeout_ms/),
      );
    },
  );
});
