/** Guarantee: small guards of the scripts that no story of a run would miss, each held by a look at what they leave. */
import { expect, test } from "vitest";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import { deadlineMember } from "../../../src/shared/protocol/keys.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { createAgentInspection } from "../../../src/shared/redis/inspection.ts";
import { createProviderLimiter } from "../../../src/shared/redis/provider-limiter.ts";
import { createWakeQueue } from "../../../src/shared/redis/wake-queue.ts";
import { DESTROY, questionsOf, type Rig, verbRig, wellDone } from "./rig.ts";

const LIMITED = { outcome: "limited", reason: "overloaded" } as const;
const OK = { outcome: "ok", reason: "turn" } as const;
const FAR_MS = 3_600_000;

/** A limiter that was closed for a moment, and is slowed now. */
async function slowed(rig: Rig, timing: { leaseMs?: number; limiterQuietMs?: number } = {}) {
  const limiter = createProviderLimiter(
    rig.redis,
    rig.keys,
    { ...TIMING, limiterBackoffMs: 2, ...timing },
    () => 0,
  );
  const enter = (run: string) => limiter.acquire("m", run);
  const admit = async (run: string) => {
    const answer = await enter(run);
    if (answer.status !== "open") throw new Error(`${run} was not let in`);
    return answer;
  };
  await limiter.release("m", "first", await admit("first"), LIMITED);
  await rig.redisReaches(Number(await rig.redis.hget(rig.keys.limiter("m"), "until")) + 1);
  return { limiter, enter, admit };
}

/** An agent that stays after its first run, idle. */
async function idleAfterRun(rig: Rig) {
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  await rig.store.settle(agent, { ...wellDone(epoch), target: "idle", ended_reason: undefined });
  return agent;
}

test("every touch of a deadline leaves a greater mark than the one before, also one that is sooner", async () => {
  const rig = verbRig();
  const agent = rig.address();
  const mark = async () => Number(await rig.redis.hget(rig.keys.hintGrace, deadlineMember(agent)));
  await rig.deadlines.hint(agent, FAR_MS);
  const first = await mark();
  await rig.deadlines.hint(agent, 0);
  expect(await mark()).toBeGreaterThan(first);
});

test("an agent that is asked to finish while it waits has no open question any more", async () => {
  const rig = verbRig();
  const { agent } = await rig.waiting();
  expect((await rig.raw(agent)).questions).toBeDefined();
  expect(await rig.store.finish(agent)).toMatchObject({ status: "finishing" });
  expect((await rig.raw(agent)).questions).toBeUndefined();
});

test("the slot of a dead worker frees itself although others are kept", async () => {
  const rig = verbRig();
  const leaseMs = 400;
  const { limiter, enter, admit } = await slowed(rig, { leaseMs });
  await limiter.release("m", "probe", await admit("probe"), OK);
  await admit("kept");
  await admit("dead");
  const diedAt = await rig.redisNow();
  await rig.redisReaches(diedAt + leaseMs / 2);
  await limiter.keep("m", "kept");
  await rig.redisReaches(diedAt + leaseMs + 1);
  expect((await enter("next")).status).toBe("open");
});

test("a question at a slowed limiter that is sent again keeps the slot it took", async () => {
  const { enter, admit } = await slowed(verbRig());
  expect((await admit("a")).holdsSlot).toBe(true);
  expect(await enter("a")).toMatchObject({ status: "open", holdsSlot: true });
  expect((await enter("b")).status).toBe("wait");
});

test("a limiter at which somebody waits is remembered until after that appointment", async () => {
  const rig = verbRig();
  const limiterQuietMs = 60_000;
  const { enter, admit } = await slowed(rig, { limiterQuietMs });
  await admit("a");
  await rig.redis.pexpire(rig.keys.limiter("m"), limiterQuietMs / 2);
  expect((await enter("b")).status).toBe("wait");
  expect(await rig.redis.pttl(rig.keys.limiter("m"))).toBeGreaterThan(limiterQuietMs / 2);
});

test("of several waits that were asked for together the longest holds, also when it came first", async () => {
  const rig = verbRig();
  const limiter = createProviderLimiter(rig.redis, rig.keys, TIMING, () => 0);
  const until = async () => Number(await rig.redis.hget(rig.keys.limiter("m"), "until"));
  const [a, b] = [await limiter.acquire("m", "a"), await limiter.acquire("m", "b")];
  if (a.status !== "open" || b.status !== "open") throw new Error("a healthy limiter lets everybody in");
  await limiter.release("m", "a", a, { ...LIMITED, retryAfterMs: 60_000 });
  const asked = await until();
  await limiter.release("m", "b", b, { ...LIMITED, retryAfterMs: 1_000 });
  expect(await until()).toBe(asked);
});

test("an inspection says that a name leads to its agent only where it does", async () => {
  const rig = verbRig();
  const wakes = createWakeQueue(rig.redis, rig.keys);
  const inspection = createAgentInspection(rig.redis, rig.keys, wakes, TIMING);
  const agent = await rig.spawn();
  const isNamed = async () => (await inspection.inspect([agent], FAR_MS)).snapshots[0]?.record?.isNamed;
  expect(await isNamed()).toBe(true);
  const { agent_id = "" } = await rig.raw(agent);
  await rig.redis.hset(rig.keys.parent(agent).registry, agent_id, rig.address().uid);
  expect(await isNamed()).toBe(false);
});

test("neither a renewal nor a hand-back makes the next check earlier than it was", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const later = (await rig.redisNow()) + FAR_MS;
  await rig.redis.hset(rig.keys.agent(agent).record, "deadline", later);
  await rig.store.renew(agent, { epoch, running_ms: 1 });
  expect(Number((await rig.raw(agent)).deadline)).toBe(later);
  await rig.store.release(agent, { epoch, delay_ms: 0, running_ms: 1, attempts: 0, breaks: 0 });
  expect(Number((await rig.raw(agent)).deadline)).toBe(later);
});

test("a question of a run whose message is too old already makes the next check no earlier than it was", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const { record } = rig.keys.agent(agent);
  const before = (await rig.redisNow()) + 30_000;
  await rig.age(agent);
  await rig.redis.hset(record, "deadline", before);
  expect(await rig.store.ask(agent, questionsOf(epoch))).toEqual({ status: "asked", deadline: before });
});

test("a new run begins with fresh counters, and with nothing that was noted of the last one", async () => {
  const rig = verbRig();
  const agent = await idleAfterRun(rig);
  const counters = { running_ms: 9, attempts: 8, breaks: 7, crashes_without_progress: 1 };
  const notes = {
    ...{ progress: "[]", summary: "said", reply: "{}", message_ids: "m-1", begun: "1.1@2", finish: 1 },
    ...{ tools_since: 1, in_doubt: 1, isolated_crashes: 1, provider_wait: "{}", provider_wait_since: 1 },
  };
  await rig.redis.hset(rig.keys.agent(agent).record, { ...counters, ...notes });
  await rig.send(agent, "and now?", newRequestKey());
  const raw = await rig.raw(agent);
  for (const name of Object.keys(counters)) expect(raw[name], name).toBe("0");
  expect(Object.keys(raw).filter((name) => name in notes)).toEqual([]);
});

test.for(['"no object"', "7", "null", "{"])(
  "a run whose counters are %s is counted all the same when it is ended",
  async (progress) => {
    const rig = verbRig();
    const { agent } = await rig.running();
    await rig.redis.hset(rig.keys.agent(agent).record, { progress });
    expect((await rig.store.settle(agent, DESTROY)).status).toBe("settled");
    expect((await rig.store.usage(rig.parent, 0)).replies).toBe(1);
  },
);

test("an answered message has no age any more", async () => {
  const rig = verbRig();
  const agent = await idleAfterRun(rig);
  expect((await rig.raw(agent)).unanswered_since).toBeUndefined();
});
