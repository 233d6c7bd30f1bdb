import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { ZERO_USAGE } from "../../../src/shared/protocol/content.ts";
import { newRequestKey, newUid } from "../../../src/shared/protocol/ids.ts";
import { deadlineMember } from "../../../src/shared/protocol/keys.ts";
import { answerEntry } from "../../../src/shared/protocol/log.ts";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import { WORKER_TTL_MS } from "../../../src/shared/protocol/worker.ts";
import { budgetsOf, createBudgetBook } from "../../../src/shared/redis/budget.ts";
import { HIDDEN_MS } from "../../../src/shared/redis/deadlines.ts";
import { createWakeQueue } from "../../../src/shared/redis/wake-queue.ts";
import { createWorkerDirectory } from "../../../src/shared/redis/workers.ts";
import { createSweeper } from "../../../src/worker/sweeper.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { startPrivateRedis } from "../../helpers/redis.ts";
import { bodyOf, DESTROY, handedBack, questionsOf, type Rig, SPEC, verbRig, wellDone } from "./rig.ts";

/** A rig on a server that has no memory left after `prepare`. */
async function fullAfter<T>(prepare: (rig: Rig) => Promise<T>): Promise<{ rig: Rig; prepared: T }> {
  const server = await startPrivateRedis();
  const rig = verbRig({ url: server.url });
  const prepared = await prepare(rig);
  await rig.redis.config("SET", "maxmemory", "1");
  return { rig, prepared };
}

test("when Redis is full spawns and sends are refused and leave nothing behind", async () => {
  const { rig, prepared: agent } = await fullAfter((rig) => rig.spawn());
  const before = await rig.everything();
  await expect(rig.spawn()).rejects.toThrow("OOM");
  await expect(rig.send(agent, "look")).rejects.toThrow("OOM");
  expect(await rig.everything()).toEqual(before);
});

test("when Redis is full runs in progress still renew, commit, ask, hand back and end, and their replies are acked", async () => {
  const { rig, prepared } = await fullAfter(async (rig) => ({
    ending: await rig.running(),
    staying: await rig.running(),
    leaving: await rig.running(),
    asking: await rig.running(),
    finishing: await rig.running(),
    goingOn: await rig.running(),
    destroyed: await rig.queued(),
  }));
  const { ending, staying, leaving, asking, finishing, goingOn, destroyed } = prepared;
  for (const { agent, epoch } of [ending, staying]) {
    expect(await rig.store.renew(agent, { epoch, running_ms: 1 })).toMatchObject({ status: "ok" });
    expect(
      await rig.readFirst(agent, epoch, {
        ...partsOf(bodyOf("p")),
        advances: true,
        interim_id: `i-${agent.uid}`,
        interim: "b",
      }),
    ).toMatchObject({ status: "appended" });
    // The call behind a commit that Redis has already is named all the same.
    expect(await rig.readFirst(agent, epoch, { begun: "1.1@1" })).toMatchObject({ status: "same" });
  }
  expect(await rig.store.finish(finishing.agent)).toMatchObject({ status: "finishing" });
  expect(await rig.store.settle(ending.agent, handedBack(ending.epoch))).toMatchObject({ status: "settled" });
  expect(
    await rig.store.settle(staying.agent, { ...wellDone(staying.epoch), target: "idle", idle_ms: 60_000 }),
  ).toMatchObject({ agent_status: "idle" });
  const answered = { ...wellDone(goingOn.epoch), entries: [["0", "{}"]] as const, events: "{}" };
  expect(await rig.store.settle(goingOn.agent, answered)).toMatchObject({ status: "more" });
  const handBack = { epoch: leaving.epoch, delay_ms: 0, running_ms: 1, attempts: 0, events: "{}" };
  expect(await rig.store.release(leaving.agent, handBack)).toMatchObject({ status: "released" });
  const asked = await rig.store.ask(asking.agent, questionsOf(asking.epoch));
  expect(asked).toMatchObject({ status: "asked" });
  const answer = { authority: "parent" as const, question_id: "1/a", entry: answerEntry("yes") };
  expect(await rig.store.answer(asking.agent, answer)).toMatchObject({ status: "queued" });
  expect(await rig.store.settle(destroyed, DESTROY)).toMatchObject({ status: "settled" });
  const entries = await rig.replies.read(rig.parent, "0", 10);
  expect(entries).toHaveLength(6);
  for (const entry of entries) expect(await rig.replies.ack(rig.parent, entry, "t")).toBe(true);
  await rig.redis.config("SET", "maxmemory", "0");
  expect(await rig.claim(leaving.agent)).toBeGreaterThan(leaving.epoch);
});

test("when Redis is full a parent still renews its lease, and a sweeper notes the end of another's", async () => {
  const { rig, prepared: agent } = await fullAfter((rig) => rig.spawn());
  const { lease } = rig.keys.parent(agent);
  expect(await rig.store.hold(agent, { parent_lease_ms: 1 })).toMatchObject({ status: "held" });
  await rig.redisReaches((await rig.redisNow()) + 2);
  expect(await rig.store.orphans(agent)).toMatchObject({ status: "held" });
  expect(await rig.redis.hexists(lease, "lapsed_at")).toBe(1);
  expect(await rig.store.hold(agent, { parent_lease_ms: 60_000 })).toMatchObject({ status: "held" });
  expect(await rig.redis.hexists(lease, "lapsed_at")).toBe(0);
});

test("when Redis is full a hint comes through for an agent that sweepers know, and for no other", async () => {
  const { rig, prepared: agent } = await fullAfter(async (rig) => {
    const agent = await rig.spawn();
    await rig.deadlines.hint(agent, 60_000);
    return agent;
  });
  const member = deadlineMember(agent);
  await rig.deadlines.hint(agent, 1_000);
  expect(Number(await rig.redis.zscore(rig.keys.deadlines, member))).toBeLessThan(
    (await rig.redisNow()) + 2_000,
  );
  await expect(rig.deadlines.hint({ ...agent, uid: newUid() }, 1_000)).rejects.toThrow("OOM");
  expect(await rig.redis.zrange(rig.keys.deadlines, 0, -1)).toEqual([member]);
});

test("when Redis is full sweepers go on: an idle agent ends when its time is over, and no sooner", async () => {
  const { rig, prepared } = await fullAfter(async (rig) => {
    const [over, living] = [await rig.spawn({ idleMs: 1 }), await rig.spawn({ idleMs: 600_000 })];
    for (const agent of [over, living]) await rig.deadlines.hint(agent, 0);
    await rig.redisReaches((await rig.redisNow()) + 5);
    return { over, living };
  });
  const wakes = createWakeQueue(rig.redis, rig.keys);
  closeAtEnd(() => wakes.stop());
  const { store, deadlines, redis, keys } = rig;
  const workers = createWorkerDirectory(redis, keys);
  const sweeper = createSweeper({
    store,
    deadlines,
    wakes,
    workers,
    clock: systemClock,
    logger: createLogger({ level: "silent" }),
  });
  expect(await sweeper.tick()).toBe(2);
  expect(await rig.store.record(prepared.over)).toMatchObject({ status: "ended", ended_reason: "idle" });
  const next = Number(await rig.redis.zscore(rig.keys.deadlines, deadlineMember(prepared.living)));
  expect(next).toBeGreaterThan((await rig.redisNow()) + HIDDEN_MS);
});

test("when Redis is full no agent is claimed, and nothing of one that is not changes", async () => {
  const { rig, prepared: agent } = await fullAfter((rig) => rig.queued());
  const before = await rig.everything();
  const claiming = rig.store.claim(agent, { claim_id: newRequestKey(), worker: "w" });
  await expect(claiming).rejects.toThrow("OOM");
  expect(await rig.everything()).toEqual(before);
});

test("when Redis is full no spawn comes through behind a name that is forgotten", async () => {
  const { rig } = await fullAfter(async (rig) => {
    await rig.spawn();
    await rig.redis.hset(rig.keys.parent(rig.parent).registry, "gone", newUid());
  });
  const before = await rig.everything();
  const input = {
    request_key: newRequestKey(),
    digest: "d",
    stem: "b",
    name: "B",
    spec: JSON.stringify(SPEC),
  };
  // One spawn in eight looks for names without a record.
  const agent = { ...rig.address(), uid: `sa-0${newUid().slice(4)}` };
  await expect(rig.store.spawn(agent, { ...input, idle_ms: 60_000 })).rejects.toThrow("OOM");
  expect(await rig.everything()).toEqual(before);
});

test("when Redis is full what was bought is booked: a charge, a reservation and what it came to", async () => {
  const { rig, prepared: agent } = await fullAfter((rig) => rig.queued());
  const budgets = createBudgetBook(rig.redis, rig.keys, rig.store.timing);
  const bound = budgetsOf(agent, { parent: { max_total_tokens: 1_000 } });
  const of = (tokens: number) => ({ tokens, costUsd: 0 });
  expect(await budgets.reserve(bound, "p.1", of(900), false)).toMatchObject({ status: "granted" });
  await budgets.settle(bound, "p.1", of(100));
  expect(await budgets.reserve(bound, "p.2", of(800), false)).toMatchObject({ status: "granted" });
  const bought = { usage: { ...ZERO_USAGE, input_tokens: 7 }, cost_usd: 0 };
  expect(await rig.store.charge(agent, { purchase_id: "p", bought })).toMatchObject({ status: "charged" });
  expect(await rig.store.charge(agent, { purchase_id: "p", bought })).toMatchObject({ status: "same" });
});

test("when Redis is full a worker that stops is known no more", async () => {
  const worker = { id: "w", host: "h", version: "1", concurrency: 1, tools: [] };
  const { rig } = await fullAfter(({ redis, keys }) => createWorkerDirectory(redis, keys).announce(worker));
  const workers = createWorkerDirectory(rig.redis, rig.keys);
  await workers.withdraw(worker.id);
  expect(await workers.list()).toEqual([]);
});

test("when Redis is full a worker that lives stays known, with its newest announcement, and is told of the refusal", async () => {
  const worker = { id: "w", host: "h", version: "1", concurrency: 1, tools: [] };
  const { rig } = await fullAfter(async ({ redis, keys }) => {
    await createWorkerDirectory(redis, keys).announce({ ...worker, now: 1 });
    for (const key of [keys.worker(worker.id), keys.workers]) await redis.pexpire(key, WORKER_TTL_MS / 2);
  });
  const workers = createWorkerDirectory(rig.redis, rig.keys);
  await expect(workers.announce({ ...worker, now: 2 })).rejects.toThrow("OOM");
  expect(await workers.list()).toEqual([{ v: 1, ...worker, now: 2 }]);
  for (const key of [rig.keys.worker(worker.id), rig.keys.workers])
    expect(await rig.redis.pttl(key)).toBeGreaterThan(WORKER_TTL_MS / 2);
});
