import { getEventListeners } from "node:events";
import { describe, expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import type { ClientOptions } from "../../../src/producer/client-resources.ts";
import { type Clock, systemClock } from "../../../src/shared/clock.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { latch } from "../../helpers/latch.ts";
import { refusal, testClient, testParent } from "../../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";
import { until } from "../../helpers/until.ts";
import { questionsOf } from "../verbs/rig.ts";

const address = { tenant: "default", parentId: "planner-7" };

function scene(options: Pick<ClientOptions, "timing" | "clock"> = {}) {
  const prefix = uniquePrefix();
  const client = testClient({ prefix, ...options });
  const worker = scriptedWorker(redisUrl(), prefix, address);
  const unacked = () => worker.redis.xlen(worker.store.keys.parent(address).replies);
  return { prefix, client, parent: testParent(client), worker, unacked };
}

describe("task", () => {
  test("gives the prompt to a fresh agent, resolves with its reply and acks it", async () => {
    const { parent, worker, unacked } = scene();
    const reply = parent.task({ prompt: "Which testing framework?" });
    expect(await worker.run("task", { summary: "vitest" })).toEqual(["Which testing framework?"]);
    expect(await reply).toMatchObject({
      kind: "reply",
      status: "succeeded",
      summary: "vitest",
      agent_id: "task",
    });
    await until(async () => (await unacked()) === 0);
    expect(await parent.list()).toEqual([]);
  });

  test("has 30 turns where a spawn has 20, and the operator may set both", async () => {
    const { prefix, parent, worker } = scene();
    const reply = parent.task({ prompt: "go", name: "t" });
    await worker.uidOf("t");
    expect((await parent.get("t")).limits.max_turns).toBe(30);
    await worker.run("t");
    await reply;
    const operated = testParent(testClient({ prefix, limits: { max_turns: 25 } }));
    expect((await operated.spawn({ name: "s" })).limits.max_turns).toBe(25);
    await expect(operated.task({ prompt: "go", limits: { max_turns: 26 } })).rejects.toMatchObject(
      refusal("invalid_input", /max_turns 26 .*\(25\)/),
    );
  });

  test("resolves with the agent's end when it ends otherwise", async () => {
    const { parent, worker } = scene();
    const reply = parent.task({ prompt: "go" });
    await until(async () => (await worker.queued()).includes("task"));
    await parent.destroy("task");
    expect(await reply).toMatchObject({ kind: "ended", status: "cancelled", stop_reason: "destroyed" });
  });

  test.for([
    ["its caller leaves questions to the default", {}],
    ["its caller answers questions", { onQuestion: () => "blue" }],
  ] as const)(
    "keeps its reply from the readers of the channel, who see everything else: %s",
    async ([, options]) => {
      const { parent, worker } = scene();
      const replies = parent.replies();
      const next = replies.next();
      const reply = parent.task({ prompt: "go", ...options });
      await worker.run("task", { interim: "a word" });
      await reply;
      await parent.spawn({ name: "other" });
      await parent.destroy("other");
      expect((await next).value).toMatchObject({ kind: "message", text: "a word" });
      expect((await replies.next()).value).toMatchObject({ agent_id: "other" });
    },
  );

  test("aborted, destroys its agent, leaves no entry, and rejects with the signal's reason", async () => {
    const { parent, worker, unacked } = scene();
    const replies = parent.replies();
    const stop = new AbortController();
    const reply = parent.task({ prompt: "go", signal: stop.signal });
    await until(async () => (await worker.queued()).includes("task"));
    stop.abort(new Error("changed my mind"));
    await expect(reply).rejects.toThrow("changed my mind");
    expect(await parent.get("task")).toMatchObject({ status: "ended", ended_reason: "destroyed" });
    await until(async () => (await unacked()) === 0);
    await parent.spawn({ name: "other" });
    await parent.destroy("other");
    expect((await replies.next()).value).toMatchObject({ agent_id: "other" });
  });

  test("aborted, leaves no timer behind when its client stops: the process may end", async () => {
    const pending = new Set<object>();
    const clock: Clock = {
      ...systemClock,
      timeout(ms, callback) {
        const timer = systemClock.timeout(ms, () => {
          pending.delete(timer);
          callback();
        });
        pending.add(timer);
        return {
          cancel() {
            pending.delete(timer);
            timer.cancel();
          },
        };
      },
    };
    const { client, parent, worker } = scene({ clock });
    const stop = new AbortController();
    const reply = parent.task({ prompt: "go", signal: stop.signal });
    await until(async () => (await worker.queued()).includes("task"));
    // The connections' own timers are not the task's.
    pending.clear();
    stop.abort(new Error("changed my mind"));
    await expect(reply).rejects.toThrow("changed my mind");
    await client.stop();
    expect(pending.size).toBe(0);
  });

  test("aborted while its agent cannot be destroyed, leaves the agent's question to others", async () => {
    const { prefix, parent, worker } = scene();
    const [stop, asked] = [new AbortController(), latch()];
    const onQuestion = () => {
      asked.open();
      return new Promise<string>(() => {});
    };
    const reply = parent.task({ prompt: "go", signal: stop.signal, onQuestion });
    const { uid, epoch } = await worker.claim("task");
    await worker.store.ask({ ...address, uid }, questionsOf(epoch));
    await asked.opened;
    const { attachments } = worker.store.keys.agent({ ...address, uid });
    await worker.redis.set(attachments, "a key of another type: the agent cannot end");
    stop.abort(new Error("changed my mind"));
    await expect(reply).rejects.toThrow("changed my mind");
    await parent.stop();
    const { entries } = await testParent(testClient({ prefix })).newReplies();
    expect(entries).toMatchObject([{ kind: "question", agent_id: "task" }]);
  });

  test("aborted before it began spawns nothing", async () => {
    const { prefix, parent, worker } = scene();
    const signal = AbortSignal.abort(new Error("never mind"));
    await expect(parent.task({ prompt: "go", signal })).rejects.toThrow("never mind");
    expect(await worker.redis.keys(`*${prefix}*`)).toEqual([]);
  });

  test("listens to its signal no more when it is over", async () => {
    const { parent, worker } = scene();
    const { signal } = new AbortController();
    const reply = parent.task({ prompt: "go", signal });
    await worker.run("task");
    await reply;
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  test("aborted while its client connects spawns nothing", async () => {
    const { parent } = scene();
    const stop = new AbortController();
    const reply = parent.task({ prompt: "go", signal: stop.signal });
    stop.abort(new Error("changed my mind"));
    await expect(reply).rejects.toThrow("changed my mind");
    expect(await parent.list()).toEqual([]);
  });

  test("leaves its agent and its reply to others when its parent stops", async () => {
    const { prefix, parent, worker } = scene();
    const reply = parent.task({ prompt: "go" });
    await until(async () => (await worker.queued()).includes("task"));
    await Promise.all([expect(reply).rejects.toMatchObject(refusal("closed")), parent.stop()]);
    await worker.run("task", { summary: "done" });
    const later = testParent(testClient({ prefix }));
    expect((await later.replies().next()).value).toMatchObject({ summary: "done" });
  });

  test("repeated with its request key finds the reply of the first call", async () => {
    const { prefix, parent, worker } = scene();
    const input = { prompt: "go", request_key: "t1" };
    const first = parent.task(input);
    await until(async () => (await worker.queued()).includes("task"));
    await Promise.all([expect(first).rejects.toMatchObject(refusal("closed")), parent.stop()]);
    await worker.run("task", { summary: "done" });
    const later = testParent(testClient({ prefix }));
    expect(await later.task(input)).toMatchObject({ summary: "done", agent_id: "task" });
    await expect(later.task({ ...input, prompt: "other" })).rejects.toMatchObject(refusal("conflict"));
  });

  test("repeated and cancelled while its spawn is under way, ends with that reason and leaves nothing reserved", async () => {
    const { client, parent, worker } = scene();
    const input = { prompt: "go", request_key: "once" };
    const first = parent.task(input);
    await worker.claim("task");
    const { store } = await internalsOf(client).open();
    const { spawn } = store;
    const stop = new AbortController();
    store.spawn = (...given) => {
      stop.abort(new Error("enough"));
      return spawn(...given);
    };
    await expect(parent.task(input, { signal: stop.signal })).rejects.toThrow("enough");
    expect(await first).toMatchObject({ kind: "ended", stop_reason: "destroyed" });
    // A channel that nobody waits on any more is left.
    const { doorbell } = worker.store.keys.parent(address);
    await until(async () => Number((await worker.redis.pubsub("NUMSUB", doorbell))[1]) === 0);
  });

  test("repeated after its ack, gives the same reply again and says that it is known", async () => {
    const { prefix, parent, worker, unacked } = scene();
    const input = { prompt: "go", request_key: "t1" };
    const first = parent.task(input);
    expect(await first.started).toMatchObject({ agent_id: "task", known: false });
    await worker.run("task", { summary: "done" });
    const reply = await first;
    await until(async () => (await unacked()) === 0);
    const again = testParent(testClient({ prefix })).task(input);
    expect(await again.started).toMatchObject({ agent_id: "task", known: true });
    expect(await again).toEqual(reply);
    const other = parent.task({ ...input, prompt: "other" });
    await Promise.all([
      expect(other.started).rejects.toMatchObject(refusal("conflict")),
      expect(other).rejects.toMatchObject(refusal("conflict")),
    ]);
  });

  test("repeated after its destruction, gives the end as it was", async () => {
    const { parent, worker } = scene();
    const input = { prompt: "go", request_key: "t1" };
    const first = parent.task(input);
    await until(async () => (await worker.queued()).includes("task"));
    await parent.destroy("task");
    const reply = await first;
    expect(reply).toMatchObject({ stop_reason: "destroyed", message_ids: [], undelivered: ["t1"] });
    expect(await parent.task(input)).toEqual(reply);
  });

  test("repeated when what was kept of it has lapsed, begins anew, whatever it asks", async () => {
    const { parent, worker } = scene({ timing: { ...TIMING, keptAfterAckMs: 20 } });
    for (const prompt of ["go", "go", "other"]) {
      const task = parent.task({ prompt, request_key: "t1" });
      const { agent_id, known } = await task.started;
      expect(known).toBe(false);
      const uid = await worker.uidOf(agent_id);
      await worker.run(agent_id);
      await task;
      const { record } = worker.store.keys.agent({ ...address, uid });
      await until(async () => (await worker.redis.exists(record)) === 0);
    }
  });

  test("is remembered a day beyond its ack where the caller named it, and what it costs is small", async () => {
    const { parent, worker } = scene();
    const named = parent.task({ prompt: "go", request_key: "t1" });
    await until(async () => (await worker.queued()).includes("task"));
    const leftDays = async () =>
      Math.ceil((await worker.redis.pttl(ofParent.request("t1"))) / TIMING.requestTtlMs);
    const ofParent = worker.store.keys.parent(address);
    const unackedMs = TIMING.maxAgeMs + TIMING.replyTtlMs;
    expect(await leftDays()).toBe(1 + unackedMs / TIMING.requestTtlMs);
    await worker.run("task");
    await named;
    const { record } = worker.store.keys.agent({ ...address, uid: await worker.uidOf("task") });
    await until(() => worker.redis.hexists(record, "acked_by"));
    const kept = Object.values(await worker.redis.hgetall(record)).join("");
    expect(await leftDays()).toBe(1);
    expect(kept.length).toBeLessThan(450);
  });

  test("repeated as long as its reply waits for an ack finds that reply, however long its caller has been dead", async () => {
    const { prefix, client, parent, worker } = scene();
    const input = { prompt: "go", request_key: "t1" };
    const first = parent.task(input);
    const { agent_id } = await first.started;
    await Promise.all([expect(first).rejects.toMatchObject(refusal("closed")), client.stop()]);
    await worker.run(agent_id, { summary: "done" });
    const ofParent = worker.store.keys.parent(address);
    const { record } = worker.store.keys.agent({ ...address, uid: await worker.uidOf(agent_id) });
    // As if nearly all of the reply's time had passed.
    for (const key of [record, ofParent.replies, ofParent.request("t1")]) {
      const leftMs = await worker.redis.pttl(key);
      await worker.redis.pexpire(key, leftMs - TIMING.replyTtlMs + 60_000);
    }
    const again = testParent(testClient({ prefix })).task(input);
    expect(await again.started).toMatchObject({ agent_id, known: true });
    expect(await again).toMatchObject({ summary: "done" });
  });

  test("gets a reply that another process acks while it waits", async () => {
    const { prefix, parent, worker, unacked } = scene();
    const reply = parent.task("go");
    await reply.started;
    // Only the slow tick is left, and the stream is empty by then.
    await worker.run("task", { summary: "done", unheard: true });
    const taken = await testParent(testClient({ prefix })).replies().next();
    await taken.value?.ack();
    expect(await unacked()).toBe(0);
    expect(await reply).toMatchObject({ summary: "done" });
  });

  test("refuses a bad prompt and options that only managed agents have", async () => {
    const { parent } = scene();
    for (const input of [
      { prompt: "" },
      { prompt: "x".repeat(300 * 1024) },
      { prompt: "go", keep_alive: true },
    ]) {
      await expect(parent.task(input)).rejects.toMatchObject(refusal("invalid_input"));
    }
    expect(await parent.list()).toEqual([]);
  });

  test("ten at once on one parent each get their own reply, and one more is over the quota", async () => {
    const { parent, worker, unacked } = scene();
    const tasks = Array.from({ length: 10 }, (_, i) => parent.task({ prompt: `question ${i}`, name: "t" }));
    await until(async () => (await worker.queued()).length === 10);
    await expect(parent.task({ prompt: "one more" })).rejects.toMatchObject(refusal("quota_exceeded"));
    for (const id of await worker.queued()) await worker.run(id);
    const replies = await Promise.all(tasks);
    expect(replies.map((reply) => reply.summary)).toEqual(tasks.map((_, i) => `question ${i}`));
    await until(async () => (await unacked()) === 0);
  });
});

test("the installation's durations reach the store", async () => {
  const client = testClient({ timing: { ...TIMING, checkMs: 7 } });
  expect((await internalsOf(client).open()).store.timing.checkMs).toBe(7);
});
