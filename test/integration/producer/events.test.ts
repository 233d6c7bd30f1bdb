import { describe, expect, test } from "vitest";
import type { ClientResources } from "../../../src/producer/client-resources.ts";
import { type EventOptions, type NumberedEvent, watchParent } from "../../../src/producer/events.ts";
import { contextOf, type Parent } from "../../../src/producer/parent.ts";
import { SubagentError } from "../../../src/shared/errors.ts";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { agentOf, keysUnder } from "../../../src/shared/protocol/keys.ts";
import { redisNowMs } from "../../../src/shared/redis/redis-time.ts";
import { writeLines } from "../../helpers/event-lines.ts";
import { latch } from "../../helpers/latch.ts";
import { refusal, testClient, testParent } from "../../helpers/parents.ts";
import { onEachServer, redisUrl, uniquePrefix } from "../../helpers/redis.ts";
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

test.for(["x", "", "1-2-3", " 0", `${"9".repeat(17)}-0`])("events behind %j are refused", async (after) => {
  const { parent } = scene();
  await expect(parent.events({ after }).next()).rejects.toMatchObject(
    refusal("invalid_input", /after: the number of an event, or 0/),
  );
});

test("a run that a parent begins after it asked for events finds them watched, subscribed or not", async () => {
  const { prefix, worker } = scene();
  // This client may subscribe to nothing.
  const rights = ["on", ">secret", "~*", "resetchannels", "+@all"];
  await onEachServer(worker.redis, (server) => server.acl("SETUSER", prefix, ...rights));
  const url = redisUrl().replace("//", `//${prefix}:secret@`);
  const parent = testParent(testClient({ prefix, redisUrl: url }));
  const events = parent.events();
  await parent.spawn({ name: "a" });
  expect(await worker.redis.exists(keysUnder(prefix).parent(address).watching)).toBe(1);
  await events.return?.();
  await onEachServer(worker.redis, (server) => server.acl("DELUSER", prefix));
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
  const told = JSON.stringify({ v: 1, agent_id: "b", name: "b", n: newest, p: "0", r: 1, e: [] });
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

/** A reader, and what its client has done for it. It is spared the slow tick, at which it would read what it is to hear. */
async function openReader(
  parent: Parent,
  options: EventOptions,
  isRefused = (_call: number) => false,
  behind = async (_call: number) => {},
) {
  const context = contextOf(parent);
  const client = await context.open();
  const seen = { calls: 0, underWay: 0, heard: 0 };
  const read: ClientResources["read"] = async (send) => {
    seen.calls += 1;
    seen.underWay += 1;
    try {
      if (isRefused(seen.calls)) throw new SubagentError("redis_unavailable", "away");
      const answer = await client.read(send);
      await behind(seen.calls);
      return answer;
    } finally {
      seen.underWay -= 1;
    }
  };
  const watch: ClientResources["subscriber"]["watch"] = (channel, watcher) =>
    client.subscriber.watch(channel, {
      ...watcher,
      onMessage(text) {
        seen.heard += 1;
        watcher.onMessage(text);
      },
      onGap(cause) {
        if (cause === "subscribed") watcher.onGap(cause);
      },
    });
  const open = async () => ({ ...client, read, subscriber: { ...client.subscriber, watch } });
  return { events: watchParent({ ...context, open }, options), seen };
}

/** Takes `count` events. */
async function take(events: AsyncIterator<NumberedEvent>, count: number): Promise<NumberedEvent[]> {
  const taken: NumberedEvent[] = [];
  while (taken.length < count) taken.push((await events.next()).value);
  return taken;
}

const numbersIn = (events: readonly NumberedEvent[]) => events.map(({ number }) => number);

test("numbers whose lines are gone hold up no reader, and hide nothing that is kept from it", async () => {
  const { prefix, parent, worker } = scene();
  const keys = keysUnder(prefix);
  const [gone, here] = [newUid(), newUid()];
  await writeLines(worker.redis, keys, address, { uids: [gone], each: 250 });
  await worker.redis.del(keys.agent(agentOf(address, gone)).timeline);
  const kept = await writeLines(worker.redis, keys, address, { uids: [here], each: 120, behind: 250 });
  const events = parent.events({ after: "0" });
  await parent.spawn({ name: "a" });
  await parent.destroy("a");
  const taken = await take(events, kept.length + 1);
  expect(numbersIn(taken.slice(0, -1))).toEqual(kept);
  expect(taken.at(-1)).toMatchObject({ type: "ended", agent_id: "a" });
});

test("a page that could not be read is read later: what is told meanwhile waits for its turn", async () => {
  const { prefix, parent, worker } = scene();
  const keys = keysUnder(prefix);
  const kept = await writeLines(worker.redis, keys, address, { uids: [newUid()], each: 150 });
  // The fourth call reads the second page: twice it says that it watches, then it reads the first one.
  const { events, seen } = await openReader(parent, { after: "0" }, (call) => call === 4);
  const first = await take(events, 100);
  await until(() => seen.calls === 4 && seen.underWay === 0);
  await parent.spawn({ name: "a" });
  await worker.redis.set(keys.parent(address).watching, "1");
  await parent.destroy("a");
  await until(() => seen.heard > 0);
  const next = await take(events, 1);
  expect(numbersIn([...first, ...next])).toEqual(kept.slice(0, 101));
  const rest = await take(events, 50);
  expect(numbersIn(rest.slice(0, -1))).toEqual(kept.slice(101));
  expect(rest.at(-1)).toMatchObject({ type: "ended", agent_id: "a" });
  await events.return?.();
});

test("what is told while a page is under way is passed on once", async () => {
  const { prefix, parent, worker } = scene();
  const page = latch();
  // Twice it says that it watches, then it reads the first page.
  const { events, seen } = await openReader(parent, {}, undefined, async (call) => {
    if (call === 3) await page.opened;
  });
  for (const name of ["a", "b"]) await parent.spawn({ name });
  await until(() => seen.calls === 3);
  await worker.redis.set(keysUnder(prefix).parent(address).watching, "1");
  await parent.destroy("a");
  await until(() => seen.heard === 1);
  page.open();
  await until(() => seen.underWay === 0);
  await worker.redis.set(keysUnder(prefix).parent(address).watching, "1");
  await parent.destroy("b");
  expect((await take(events, 2)).map(({ agent_id }) => agent_id)).toEqual(["a", "b"]);
  await events.return?.();
});

test("what was written while nothing was told is read before the next line that is", async () => {
  const { prefix, parent, worker } = scene();
  const keys = keysUnder(prefix);
  const { events, seen } = await openReader(parent, {});
  await parent.spawn({ name: "a" });
  await until(() => seen.calls >= 3 && seen.underWay === 0);
  const untold = await writeLines(worker.redis, keys, address, { uids: [newUid()], each: 3 });
  await worker.redis.set(keys.parent(address).watching, "1");
  await parent.destroy("a");
  const [first, second, third, last] = await take(events, 4);
  expect(numbersIn([first, second, third].flatMap((event) => event ?? []))).toEqual(untold);
  expect(last).toMatchObject({ type: "ended", agent_id: "a" });
  await events.return?.();
});

describe("for a reader that is slow", () => {
  test("some 1,000 events of a long history are read, and the others when it has taken them", async () => {
    const { prefix, parent, worker } = scene();
    const uids = [newUid(), newUid(), newUid()];
    const numbers = await writeLines(worker.redis, keysUnder(prefix), address, { uids, each: 2_000 });
    const { events, seen } = await openReader(parent, { after: "0" });
    const first = await take(events, 1);
    await until(() => seen.underWay === 0);
    // All of it are sixty pages.
    expect(seen.calls).toBeLessThan(30);
    expect(numbersIn([...first, ...(await take(events, numbers.length - 1))])).toEqual(numbers);
    await events.return?.();
  });

  /** A reader that has taken nothing of eight lines that were told, of 200 events each; the nth event tells of turn n. */
  async function behindByEightLines() {
    const { prefix, parent, worker } = scene();
    const { history, watching } = keysUnder(prefix).parent(address);
    const { events, seen } = await openReader(parent, {});
    await parent.spawn({ name: "a" });
    await parent.send("a", "go");
    const { uid, epoch } = await worker.claim("a");
    const agent = agentOf(address, uid);
    const tell = (turn: number, count: number) => {
      const told = Array.from({ length: count }, (_, i) => `{"type":"turn_started","turn":${turn + i}}`);
      const entries = [[`${turn}`, "{}"]] as const;
      return worker.store.append(agent, { epoch, known: 0, running_ms: 0, entries, events: told.join() });
    };
    // It has read that there is nothing, and hears from now on.
    await until(() => seen.calls >= 3 && seen.underWay === 0);
    await worker.redis.set(watching, "1");
    await Promise.all(Array.from({ length: 8 }, (_, i) => tell(i * 200 + 1, 200)));
    await until(() => seen.heard === 8);
    const forget = async () => {
      await worker.redis.xtrim(history, "MAXLEN", 0);
      await worker.redis.del(keysUnder(prefix).agent(agent).timeline);
    };
    return { events, tell, forget };
  }

  test("the last event of a step has its number, as all that a reader has taken until then", async () => {
    const { events } = await behindByEightLines();
    const numbered = (await take(events, 1_600)).flatMap(({ number, turn }) => (number ? [turn] : []));
    expect(numbered).toEqual([200, 400, 600, 800, 1_000, 1_200, 1_400, 1_600]);
    await events.return?.();
  });

  test("what is told beyond some 1,000 events is read from the history: nothing is lost", async () => {
    const { events } = await behindByEightLines();
    const turns = (await take(events, 1_600)).map(({ turn }) => turn);
    expect(turns).toEqual(Array.from({ length: 1_600 }, (_, i) => i + 1));
    await events.return?.();
  });

  test("no more than some 1,000 events wait in its process", async () => {
    const { events, tell, forget } = await behindByEightLines();
    // What does not wait there is gone.
    await forget();
    await tell(9_999, 1);
    const turns: number[] = [];
    while (turns.at(-1) !== 9_999) turns.push(...(await take(events, 1)).map(({ turn }) => turn));
    expect(turns.length).toBeLessThanOrEqual(1_201);
    await events.return?.();
  });
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
