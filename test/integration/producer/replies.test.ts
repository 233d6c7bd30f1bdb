import { describe, expect, test } from "vitest";
import type { ReceivedEntry } from "../../../src/producer/replies/parent-channel.ts";
import { SLOW_POLL_MS } from "../../../src/producer/subscriber.ts";
import { type Clock, systemClock } from "../../../src/shared/clock.ts";
import type { ProgressEvent } from "../../../src/shared/protocol/reply.ts";
import { eventPublisher } from "../../../src/shared/redis/events.ts";
import { holdingBack } from "../../helpers/latch.ts";
import { refusal, started, testClient, testParent } from "../../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";
import { until } from "../../helpers/until.ts";

const address = { tenant: "default", parentId: "planner-7" };

function scene(clock: Clock = systemClock) {
  const prefix = uniquePrefix();
  const client = testClient({ prefix, clock });
  const worker = scriptedWorker(redisUrl(), prefix, address);
  return { prefix, client, parent: testParent(client), worker };
}

async function take(entries: AsyncIterator<ReceivedEntry>, count: number): Promise<ReceivedEntry[]> {
  const taken: ReceivedEntry[] = [];
  while (taken.length < count) {
    const { value, done } = await entries.next();
    if (done) break;
    taken.push(value);
  }
  return taken;
}

const idsOf = (entries: ReceivedEntry[]) => entries.map((entry) => entry.agent_id);

describe("the reply channel", () => {
  test("a reply reaches a waiting reader by the doorbell, without the slow poll", async () => {
    const { parent, worker } = scene(holdingBack(SLOW_POLL_MS).clock);
    const replies = parent.replies();
    await parent.spawn({ name: "a" });
    const waiting = replies.next();
    await parent.send("a", "the question");
    await worker.run("a", { summary: "the answer" });
    const { value } = await waiting;
    expect(value).toMatchObject({
      kind: "reply",
      agent_id: "a",
      run: 1,
      status: "succeeded",
      stop_reason: "end_turn",
      agent_status: "ended",
      summary: "the answer",
    });
  });

  test("unacked replies outlive the client and come oldest first; acked ones do not come back", async () => {
    const { prefix, client, parent, worker } = scene();
    for (const name of ["a", "b", "c"]) {
      await parent.spawn({ name });
      await parent.send(name, "go");
      await worker.run(name);
    }
    const [first] = await take(parent.replies(), 1);
    expect(first?.agent_id).toBe("a");
    expect(await first?.ack()).toBe(true);
    await client.stop();

    const later = testParent(testClient({ prefix }));
    expect(idsOf(await take(later.replies(), 2))).toEqual(["b", "c"]);
    const again = await take(later.replies(), 2);
    expect(idsOf(again)).toEqual(["b", "c"]);
    for (const entry of again) await entry.ack();
    const ended = new AbortController();
    const none = later.replies({ signal: ended.signal }).next();
    await later.spawn({ name: "d" });
    await later.send("d", "go");
    await worker.run("d");
    expect((await none).value).toMatchObject({ agent_id: "d" });
    ended.abort();
  });

  test("two readers both see an entry, and only the first ack says true", async () => {
    const { prefix, parent, worker } = scene();
    const other = testParent(testClient({ prefix }));
    await parent.spawn({ name: "a" });
    await parent.send("a", "go");
    await worker.run("a");
    const [mine] = await take(parent.replies(), 1);
    const [theirs] = await take(other.replies(), 1);
    expect(theirs?.reply_id).toBe(mine?.reply_id);
    expect(await theirs?.ack()).toBe(true);
    expect(await mine?.ack()).toBe(false);
    expect(await theirs?.ack()).toBe(false);
  });

  test("more entries than one page come whole, in order, each once", async () => {
    const { parent, worker } = scene();
    const names: string[] = [];
    for (let i = 0; i < 120; i += 1) {
      const { agent_id } = await parent.spawn({ name: "many" });
      await parent.destroy(agent_id);
      names.push(agent_id);
    }
    expect(idsOf(await take(parent.replies(), 120))).toEqual(names);
    expect(await worker.redis.status).toBe("ready");
  });

  test("interim words come before the reply", async () => {
    const { parent, worker } = scene();
    await parent.spawn({ name: "a" });
    await parent.send("a", "go");
    await worker.run("a", { interim: "half way" });
    const [word, reply] = await take(parent.replies(), 2);
    expect(word).toMatchObject({ kind: "message", text: "half way", agent_status: "running" });
    expect(reply).toMatchObject({ kind: "reply" });
  });

  test("a destroyed agent leaves one entry that lists what it never read", async () => {
    const { parent } = scene();
    await parent.spawn({ name: "a" });
    await parent.send("a", "go", { message_id: "m1" });
    await parent.destroy("a");
    const [entry] = await take(parent.replies(), 1);
    expect(entry).toMatchObject({
      kind: "ended",
      status: "cancelled",
      stop_reason: "destroyed",
      agent_status: "ended",
      undelivered: ["m1"],
    });
  });

  test("other parents' replies do not come", async () => {
    const { client, parent, worker } = scene();
    const other = testParent(client, { parentId: "other" });
    const { agent_id } = await other.spawn({ name: "theirs" });
    await other.destroy(agent_id);
    await parent.spawn({ name: "mine" });
    await parent.send("mine", "go");
    await worker.run("mine");
    expect(idsOf(await take(parent.replies(), 1))).toEqual(["mine"]);
  });

  test("a reader ends with its signal, its parent, its client, or a break", async () => {
    const { client, parent } = scene();
    await started(client);
    const ended = new AbortController();
    const bySignal = parent.replies({ signal: ended.signal }).next();
    const aborted = parent.replies({ signal: AbortSignal.abort() }).next();
    const byParent = parent.replies().next();
    const other = testParent(client, { parentId: "other" });
    const byClient = other.replies().next();
    const events = other.events().next();
    expect(await aborted).toEqual({ done: true, value: undefined });
    ended.abort();
    expect((await bySignal).done).toBe(true);
    await parent.stop();
    expect((await byParent).done).toBe(true);
    await client.stop();
    expect((await byClient).done).toBe(true);
    expect((await events).done).toBe(true);
    await expect(other.list()).rejects.toMatchObject(refusal("closed"));
  });

  test("a reader that stops listening leaves no subscription behind", async () => {
    const { prefix, parent, worker } = scene();
    const replies = parent.replies();
    const channel = `${prefix}:{default/planner-7}:doorbell`;
    const listening = async () => {
      const [, count] = (await worker.redis.pubsub("NUMSUB", channel)) as [string, number];
      return Number(count);
    };
    await until(async () => (await listening()) === 1);
    await replies.return?.();
    await until(async () => (await listening()) === 0);
  });
});

test("progress events stream to everybody who listens, unknown ones are left out", async () => {
  const { parent, worker } = scene();
  const [one, two] = [parent.events(), parent.events()];
  const { keys } = worker.store;
  const { events } = keys.parent(address);
  await until(async () => ((await worker.redis.pubsub("NUMSUB", events)) as unknown[])[1] === 1);
  await worker.redis.publish(events, "not JSON");
  await worker.redis.publish(events, JSON.stringify({ v: 1, type: "from_the_future" }));
  const event: ProgressEvent = { v: 1, type: "turn_started", agent_id: "a", name: "A", run: 1, turn: 1 };
  eventPublisher(worker.redis, keys)(address, event);
  expect((await one.next()).value).toEqual(event);
  expect((await two.next()).value).toEqual(event);
});
