import { expect, test } from "vitest";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import { DESTROY, IDLE_END, messageOf, SPEC, verbRig } from "./rig.ts";

const input = (stem: string, requestKey: string = newRequestKey(), digest = "d") => ({
  request_key: requestKey,
  digest,
  stem,
  name: stem,
  spec: JSON.stringify(SPEC),
  idle_ms: 600_000,
});

test("a spawned agent is idle, registered, live, and its life key holds its idle time", async () => {
  const rig = verbRig();
  const agent = rig.address();
  const answer = await rig.store.spawn(agent, input("data_collector"));
  expect(answer).toMatchObject({ status: "spawned", agent_id: "data_collector" });
  const record = await rig.store.record(agent);
  expect(record).toMatchObject({
    status: "idle",
    epoch: 0,
    run: 0,
    wake: 0,
    agent_id: "data_collector",
    spec: SPEC,
  });
  expect(record?.deadline).toBe((record?.created_at ?? 0) + 600_000);
  expect(await rig.store.liveUids(rig.parent)).toEqual([agent.uid]);
  expect(await rig.store.uidOf(rig.parent, "data_collector")).toBe(agent.uid);
  const left = await rig.redis.pttl(rig.keys.agent(agent).life);
  expect(left).toBeGreaterThan(590_000);
  expect(left).toBeLessThanOrEqual(600_000);
});

test("the first message of an agent ages from its spawn", async () => {
  const rig = verbRig();
  const agent = rig.address();
  await rig.store.spawn(agent, { ...input("a"), message: JSON.stringify(messageOf("go")) });
  const { created_at, unanswered_since, inbox_since, max_age_ms } = await rig.raw(agent);
  expect([unanswered_since, inbox_since]).toEqual([created_at, created_at]);
  expect(Number(max_age_ms)).toBe(rig.store.timing.maxAgeMs);
});

test("an agent that is to go on from a transcript which is gone is not made", async () => {
  const rig = verbRig();
  const old = await rig.spawn();
  const before = await rig.everything();
  const goesOn = { message: JSON.stringify(messageOf("go on")), resumes: old.uid, first_run: 2 };
  expect(await rig.store.spawn(rig.address(), { ...input("a"), ...goesOn })).toEqual({
    status: "no_transcript",
  });
  expect(await rig.everything()).toEqual(before);
});

test.for([
  { promised: true, message: JSON.stringify(messageOf("go")), isLong: true },
  { promised: true, message: undefined, isLong: false },
  { promised: false, message: JSON.stringify(messageOf("go")), isLong: false },
])(
  "a request key is remembered for a day; one that is promised for a task, from the last moment at which its reply may be acked ($promised, $isLong)",
  async ({ promised, message, isLong }) => {
    const rig = verbRig();
    await rig.store.spawn(rig.address(), { ...input("a", "key-1"), message, promised });
    const { requestTtlMs, maxAgeMs, replyTtlMs } = rig.store.timing;
    const longestMs = requestTtlMs + (isLong ? maxAgeMs + replyTtlMs : 0);
    const leftMs = await rig.redis.pttl(rig.keys.parent(rig.parent).request("key-1"));
    expect(leftMs).toBeLessThanOrEqual(longestMs);
    expect(leftMs).toBeGreaterThan(longestMs - 60_000);
  },
);

test("a request key seen with the same digest answers same with the first agent, whoever asks", async () => {
  const rig = verbRig();
  const [first, second] = [rig.address(), rig.address()];
  const spawned = await rig.store.spawn(first, input("a", "key-1"));
  const before = await rig.everything();
  const again = await rig.store.spawn(second, input("a", "key-1"));
  expect(again).toMatchObject({ status: "same", uid: first.uid, agent_id: "a" });
  expect(
    again.status === "same" && spawned.status === "spawned" && again.created_at === spawned.created_at,
  ).toBe(true);
  expect(await rig.everything()).toEqual(before);
});

test("a request key seen with other arguments is a conflict and spawns nothing", async () => {
  const rig = verbRig();
  await rig.store.spawn(rig.address(), input("a", "key-1", "digest-1"));
  const before = await rig.everything();
  expect(await rig.store.spawn(rig.address(), input("b", "key-1", "digest-2"))).toMatchObject({
    status: "conflict",
    agent_id: "a",
  });
  expect(await rig.everything()).toEqual(before);
});

test("a request key is remembered after its agent ended, and for a day", async () => {
  const rig = verbRig();
  const agent = rig.address();
  await rig.store.spawn(agent, input("a", "key-1"));
  await rig.store.settle(agent, DESTROY);
  expect(await rig.store.spawn(rig.address(), input("a", "key-1"))).toMatchObject({
    status: "same",
    uid: agent.uid,
  });
  const left = await rig.redis.pttl(rig.keys.parent(rig.parent).request("key-1"));
  expect(left).toBeGreaterThan(23.9 * 3_600_000);
  expect(left).toBeLessThanOrEqual(24 * 3_600_000);
});

test("a request key whose agent Redis has forgotten spawns anew, with these arguments or others", async () => {
  const rig = verbRig();
  const [first, second, third] = [rig.address(), rig.address(), rig.address()];
  await rig.store.spawn(first, input("a", "key-1"));
  await rig.redis.del(rig.keys.agent(first).record);
  expect(await rig.store.spawn(second, input("a", "key-1"))).toMatchObject({ status: "spawned" });
  await rig.redis.del(rig.keys.agent(second).record);
  expect(await rig.store.spawn(third, input("b", "key-1"))).toMatchObject({ status: "spawned" });
  expect(await rig.store.spawn(rig.address(), input("b", "key-1"))).toMatchObject({
    status: "same",
    uid: third.uid,
  });
});

test("a uid that is in use is refused: its record, epoch and messages stay as they are", async () => {
  const rig = verbRig();
  const { agent } = await rig.running();
  const before = await rig.everything();
  expect(await rig.store.spawn(agent, input("other"))).toMatchObject({
    status: "conflict",
    agent_id: "researcher",
  });
  expect(await rig.everything()).toEqual(before);
});

test("the eleventh agent is refused, and none of the ten is overdue", async () => {
  const rig = verbRig();
  for (let i = 0; i < 10; i += 1) await rig.spawn();
  const before = await rig.everything();
  expect(await rig.store.spawn(rig.address(), input("eleventh"))).toEqual({
    status: "quota",
    overdue: [],
  });
  expect(await rig.everything()).toEqual(before);
});

test("a refusal lists as overdue exactly those whose life key is gone; settling one makes room for one", async () => {
  const rig = verbRig();
  const agents = [];
  for (let i = 0; i < 10; i += 1) agents.push(await rig.spawn({ idleMs: i < 3 ? 1 : 600_000 }));
  await rig.redisReaches((await rig.redisNow()) + 3);
  const refused = await rig.store.spawn(rig.address(), input("eleventh"));
  expect(refused).toMatchObject({ status: "quota" });
  expect([...(refused.status === "quota" ? refused.overdue : [])].sort()).toEqual(
    agents
      .slice(0, 3)
      .map(({ uid }) => uid)
      .sort(),
  );
  const [overdue] = agents;
  if (overdue) expect(await rig.store.settle(overdue, IDLE_END)).toMatchObject({ status: "settled" });
  expect(await rig.store.spawn(rig.address(), input("eleventh"))).toMatchObject({ status: "spawned" });
  expect(await rig.store.spawn(rig.address(), input("twelfth"))).toMatchObject({
    status: "quota",
  });
});

test("queued and running agents are never overdue, however short their idle time", async () => {
  const rig = verbRig();
  for (let i = 0; i < 5; i += 1) await rig.queued({ idleMs: 30 });
  for (let i = 0; i < 5; i += 1) await rig.running({ idleMs: 30 });
  await rig.redisReaches((await rig.redisNow()) + 35);
  expect(await rig.store.spawn(rig.address(), input("eleventh"))).toEqual({
    status: "quota",
    overdue: [],
  });
});

test("fifty spawns at once are ten agents with ten names", async () => {
  const rig = verbRig();
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => rig.store.spawn(rig.address(), input("racer"))),
  );
  const names = answers.flatMap((answer) => (answer.status === "spawned" ? [answer.agent_id] : []));
  expect(names.sort()).toEqual(
    ["racer", ...Array.from({ length: 9 }, (_, i) => `racer_${i + 2}`)].sort((a, b) => (a < b ? -1 : 1)),
  );
  expect(answers.filter(({ status }) => status === "quota")).toHaveLength(40);
});

test("fifty spawns at once with one request key are one agent", async () => {
  const rig = verbRig();
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => rig.store.spawn(rig.address(), input("one", "key-1"))),
  );
  expect(answers.filter(({ status }) => status === "spawned")).toHaveLength(1);
  expect(answers.filter(({ status }) => status === "same")).toHaveLength(49);
  expect(await rig.store.liveUids(rig.parent)).toHaveLength(1);
});

test("an agent_id is not given again after its agent ended", async () => {
  const rig = verbRig();
  const ids = [];
  for (let i = 0; i < 3; i += 1) {
    const agent = rig.address();
    const answer = await rig.store.spawn(agent, input("data_collector"));
    ids.push(answer.status === "spawned" && answer.agent_id);
    await rig.store.settle(agent, DESTROY);
  }
  expect(ids).toEqual(["data_collector", "data_collector_2", "data_collector_3"]);
});

test("a name that looks numbered never takes the number of another agent", async () => {
  const rig = verbRig();
  const ids = [];
  for (const stem of ["a", "a_2", "a", "a_2", "a"]) {
    const answer = await rig.store.spawn(rig.address(), input(stem));
    ids.push(answer.status === "spawned" && answer.agent_id);
  }
  expect(ids).toEqual(["a", "a_2", "a_3", "a_2_2", "a_4"]);
});

test("`parent` is reserved: an agent of that name becomes parent_2", async () => {
  const rig = verbRig();
  expect(await rig.store.spawn(rig.address(), input("parent"))).toMatchObject({ agent_id: "parent_2" });
});

test("where the counter of a name is gone, a spawn takes the next number, or looks at a few of many names only", async () => {
  const rig = verbRig();
  const { registry } = rig.keys.parent(rig.parent);
  const number = async (stem: string, names: number) => {
    const taken = Array.from({ length: names }, (_, n) => (n === 0 ? stem : `${stem}_${n + 1}`));
    await rig.redis.hset(registry, Object.fromEntries(taken.map((name) => [name, rig.address().uid])));
    const answer = await rig.store.spawn(rig.address(), input(stem));
    return "agent_id" in answer ? Number(answer.agent_id.split("_")[1]) : undefined;
  };
  expect(await number("few", 10)).toBe(11);
  // One look at each of the names would have found 2,001.
  expect(await number("many", 2_000)).toBe(2_062);
});

test("the registry's own counters are no agents", async () => {
  const rig = verbRig();
  await rig.spawn({ name: "a" });
  expect(await rig.store.uidOf(rig.parent, "#a")).toBeUndefined();
  expect(await rig.store.uidOf(rig.parent, "../../x")).toBeUndefined();
});

test("the registry of names outlives the last spawn, the last message and the last end by thirty days", async () => {
  const rig = verbRig();
  const { registry } = rig.keys.parent(rig.parent);
  const thirtyDaysMs = 30 * 24 * 3_600_000;
  const fresh = async () => (await rig.redis.pttl(registry)) > thirtyDaysMs - 60_000;
  const agent = await rig.spawn();
  expect(await fresh()).toBe(true);
  await rig.redis.pexpire(registry, 1_000);
  await rig.send(agent, "still there?");
  expect(await fresh()).toBe(true);
  await rig.redis.pexpire(registry, 1_000);
  await rig.store.settle(agent, DESTROY);
  expect(await fresh()).toBe(true);
});

test("agents of one parent neither count against nor appear to another parent", async () => {
  const rig = verbRig();
  for (let i = 0; i < 10; i += 1) await rig.spawn();
  const other = { ...rig.address(), parentId: "other" };
  expect(await rig.store.spawn(other, input("researcher"))).toMatchObject({
    status: "spawned",
    agent_id: "researcher",
  });
  expect(await rig.store.liveUids(other)).toEqual([other.uid]);
});
