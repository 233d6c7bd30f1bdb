import { expect, test, vi } from "vitest";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { deadlineMember } from "../../../src/shared/protocol/keys.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { readParents } from "../../../src/shared/redis/survey.ts";
import { type Rig, verbRig } from "./rig.ts";

const scoreOf = async (rig: Rig, agent: ReturnType<Rig["address"]>) => {
  const score = await rig.redis.zscore(rig.keys.deadlines, deadlineMember(agent));
  return score === null ? undefined : Number(score);
};

test("a touched agent is due when its time has come, and not before", async () => {
  const rig = verbRig();
  const agent = rig.address();
  await rig.deadlines.hint(rig.address(), 60_000);
  expect(await rig.deadlines.due(10, 1_000)).toEqual([]);
  await rig.deadlines.hint(agent, 2);
  await rig.redisReaches((await scoreOf(rig, agent)) ?? 0);
  expect(await rig.deadlines.due(10, 1_000)).toMatchObject([
    { member: deadlineMember(agent), address: agent },
  ]);
});

test("a touch makes the next look earlier, never later", async () => {
  const rig = verbRig();
  const agent = rig.address();
  await rig.deadlines.hint(agent, 60_000);
  const first = (await scoreOf(rig, agent)) ?? 0;
  await rig.deadlines.hint(agent, 90_000);
  const second = (await scoreOf(rig, agent)) ?? 0;
  expect(second).toBe(first);
  const before = await rig.redisNow();
  await rig.deadlines.hint(agent, 5_000);
  const after = await rig.redisNow();
  const third = (await scoreOf(rig, agent)) ?? 0;
  expect(third).toBeGreaterThanOrEqual(before + 5_000);
  expect(third).toBeLessThanOrEqual(after + 5_000);
});

test("a due agent is hidden from other sweepers, and comes back when the one that took it never returns", async () => {
  const rig = verbRig();
  const agent = rig.address();
  await rig.deadlines.hint(agent, 0);
  expect(await rig.deadlines.due(10, 2)).toHaveLength(1);
  await rig.redisReaches((await scoreOf(rig, agent)) ?? 0);
  expect(await rig.deadlines.due(10, 60_000)).toHaveLength(1);
  expect(await rig.deadlines.due(10, 60_000)).toEqual([]);
});

test("of many due agents the longest overdue come first, as many as asked for, each to one sweeper", async () => {
  const rig = verbRig();
  const agents = Array.from({ length: 9 }, () => rig.address());
  const now = await rig.redisNow();
  for (const [i, agent] of agents.entries())
    await rig.redis.zadd(rig.keys.deadlines, now - 1_000 + i, deadlineMember(agent));
  const catches = await Promise.all([1, 2, 3].map(() => rig.deadlines.due(3, 60_000)));
  expect(catches.map((caught) => caught.length)).toEqual([3, 3, 3]);
  expect(catches.flat().map(({ member }) => member)).toEqual(agents.map(deadlineMember));
});

test("a sweeper moves or forgets what nobody touched since it looked", async () => {
  const rig = verbRig();
  const [moved, forgotten] = [rig.address(), rig.address()];
  await rig.deadlines.hint(moved, 1);
  await rig.deadlines.hint(forgotten, 1);
  await rig.redisReaches((await rig.redisNow()) + 2);
  const at = (await rig.redisNow()) + 60_000;
  for (const due of await rig.deadlines.due(10, 1_000)) {
    if (due.address?.uid === moved.uid) await rig.deadlines.move([{ due, at }]);
    else await rig.deadlines.move([{ due, at: undefined }]);
  }
  expect(await scoreOf(rig, moved)).toBe(at);
  expect(await scoreOf(rig, forgotten)).toBeUndefined();
});

test("a touch is never buried by a move or a forget that was decided on an older look", async () => {
  const rig = verbRig();
  const agent = rig.address();
  for (const decide of ["move", "forget"] as const) {
    await rig.deadlines.hint(agent, 0);
    const [due] = await rig.deadlines.due(1, 1_000);
    if (!due) throw new Error("nothing was due");
    await rig.deadlines.hint(agent, 20_000);
    const touched = await scoreOf(rig, agent);
    if (decide === "move") await rig.deadlines.move([{ due, at: (await rig.redisNow()) + 600_000 }]);
    else await rig.deadlines.move([{ due, at: undefined }]);
    expect(await scoreOf(rig, agent)).toBe(touched);
    expect(touched).toBeLessThanOrEqual(due.seenScore);
  }
});

test("a decision on a look that is over does not undo the one of a later look", async () => {
  const rig = verbRig();
  const agent = rig.address();
  await rig.deadlines.hint(agent, 0);
  const [first] = await rig.deadlines.due(1, 2);
  await rig.redisReaches((first?.seenScore ?? 0) + 1);
  const [second] = await rig.deadlines.due(1, 60_000);
  if (!first || !second) throw new Error("two looks were expected");
  await rig.deadlines.move([{ due: first, at: (await rig.redisNow()) + 600_000 }]);
  expect(await scoreOf(rig, agent)).toBe(second.seenScore);
});

test("forgetting what is gone already, and moving it, brings nothing back", async () => {
  const rig = verbRig();
  const agent = rig.address();
  await rig.deadlines.hint(agent, 0);
  const [due] = await rig.deadlines.due(1, 1_000);
  if (!due) throw new Error("nothing was due");
  await rig.deadlines.move([{ due, at: undefined }]);
  await rig.deadlines.move([{ due, at: undefined }]);
  await rig.deadlines.move([{ due, at: (await rig.redisNow()) + 5_000 }]);
  expect(await scoreOf(rig, agent)).toBeUndefined();
});

test("a member that names no agent is handed out without an address, so that it can be forgotten", async () => {
  const rig = verbRig();
  await rig.redis.zadd(rig.keys.deadlines, 1, "garbage");
  const [due] = await rig.deadlines.due(10, 1_000);
  expect(due).toMatchObject({ member: "garbage", address: undefined });
  if (due) await rig.deadlines.move([{ due, at: undefined }]);
  expect(await rig.redis.zcard(rig.keys.deadlines)).toBe(0);
});

test("a look between a touch and its verb puts the next one off no further than the touch's grace", async () => {
  const rig = verbRig({ timing: { leaseMs: 20_000, checkMs: 10_000 } });
  for (const decide of ["move", "forget"] as const) {
    const agent = rig.address();
    await rig.redis.zadd(rig.keys.deadlines, 1, deadlineMember(agent));
    const before = await rig.redisNow();
    await rig.deadlines.hint(agent, 30_000);
    const after = await rig.redisNow();
    const [due] = await rig.deadlines.due(1, 1_000);
    if (!due) throw new Error("nothing was due");
    if (decide === "move") await rig.deadlines.move([{ due, at: after + 600_000 }]);
    else await rig.deadlines.move([{ due, at: undefined }]);
    expect(await scoreOf(rig, agent)).toBeGreaterThanOrEqual(before + 10_000);
    expect(await scoreOf(rig, agent)).toBeLessThanOrEqual(after + 10_000);
  }
});

test("a look between a touch and its verb puts off no check that is due before the end of the grace", async () => {
  const rig = verbRig();
  const agent = rig.address();
  await rig.redis.zadd(rig.keys.deadlines, 1, deadlineMember(agent));
  await rig.deadlines.hint(agent, 30_000);
  const [due] = await rig.deadlines.due(1, 1_000);
  const at = (due?.nowMs ?? 0) + 2_000;
  await rig.deadlines.move([{ due: due ?? expect.unreachable(), at }]);
  expect(await scoreOf(rig, agent)).toBe(at);
});

test("when the grace of every touch is over the set remembers nothing of it", async () => {
  const rig = verbRig({ timing: { checkMs: 2 } });
  const agent = rig.address();
  await rig.deadlines.hint(agent, 0);
  await rig.deadlines.hint(agent, 9_000);
  await rig.redisReaches((await rig.redisNow()) + 3);
  const [due] = await rig.deadlines.due(1, 1_000);
  if (due) await rig.deadlines.move([{ due, at: undefined }]);
  expect(await rig.redis.exists(rig.keys.deadlines, rig.keys.hintGrace)).toBe(0);
});

test("a decision acted on late is void once the agent was touched, although its score is what it was", async () => {
  const rig = verbRig({ timing: { checkMs: 2 } });
  const agent = rig.address();
  for (const decide of ["move", "forget"] as const) {
    await rig.redis.zadd(rig.keys.deadlines, 1, deadlineMember(agent));
    const [due] = await rig.deadlines.due(1, 60_000);
    if (!due) throw new Error("nothing was due");
    await rig.deadlines.hint(agent, 90_000);
    await rig.redisReaches((await rig.redisNow()) + 4);
    expect(await scoreOf(rig, agent)).toBe(due.seenScore);
    if (decide === "move") await rig.deadlines.move([{ due, at: due.seenScore + 600_000 }]);
    else await rig.deadlines.move([{ due, at: undefined }]);
    expect(await scoreOf(rig, agent)).toBe(due.seenScore);
  }
});

test("the index of parents has each parent once, the last active first", async () => {
  const rig = verbRig();
  const [first, second] = ["one", "two"].map((parentId) => ({ ...rig.address(), parentId }));
  if (!first || !second) return;
  for (const agent of [first, second, { ...first, uid: newUid() }]) {
    await rig.deadlines.hintByParent(agent, 60_000);
    await rig.redisReaches((await rig.redisNow()) + 2);
  }
  const parents = await readParents(rig.redis, rig.keys);
  expect(parents.map(({ parent }) => parent.parentId)).toEqual(["one", "two"]);
  const since = parents[0]?.activeAtMs ?? 0;
  expect(await readParents(rig.redis, rig.keys, since)).toHaveLength(1);
});

test("a hint of a worker or sweeper is no activity of the parent; it lists a parent that a failover has forgotten", async () => {
  const rig = verbRig();
  const agent = rig.address();
  await rig.deadlines.hintByParent(agent, 60_000);
  const activeAt = async () => (await readParents(rig.redis, rig.keys))[0]?.activeAtMs;
  const byParent = await activeAt();
  await rig.redisReaches((await rig.redisNow()) + 2);
  await rig.deadlines.hint(agent, 60_000);
  expect(await activeAt()).toBe(byParent);
  await rig.redis.del(rig.keys.parents);
  await rig.deadlines.hint(agent, 60_000);
  expect(await activeAt()).toBeGreaterThan(byParent ?? 0);
});

test("an index of many parents is read whole, in pages that hold Redis up for a moment each, and no further than asked", async () => {
  const rig = verbRig();
  const now = await rig.redisNow();
  const entries = Array.from({ length: 2_500 }, (_, n) => [now - n, `acme/p-${n}`]);
  await rig.redis.zadd(rig.keys.parents, ...entries.flat());
  const answers = vi.spyOn(rig.redis, "zrange");
  const parents = await readParents(rig.redis, rig.keys);
  expect(parents.map(({ parent }) => parent.parentId)).toEqual(entries.map((_, n) => `p-${n}`));
  const sizes = await Promise.all(answers.mock.results.map(async ({ value }) => (await value).length / 2));
  expect(sizes).toEqual([1_000, 1_000, 500]);
  answers.mockClear();
  expect(await readParents(rig.redis, rig.keys, now - 1_099)).toHaveLength(1_100);
  expect(answers).toHaveBeenCalledTimes(2);
});

test("the lists of parents forget those of which nothing is kept, as often as new ones come, and no active one", async () => {
  const rig = verbRig();
  const agent = rig.address();
  await rig.deadlines.hint(agent, 60_000);
  const lists = [rig.keys.parents, rig.keys.tenantParents(agent.tenant)] as const;
  const before = (await rig.redisNow()) - TIMING.usageTtlMs - TIMING.maxAgeMs;
  const sizes = () => Promise.all(lists.map((list) => rig.redis.zcard(list)));
  for (const list of lists) {
    const stale = Array.from({ length: 25 }, (_, n) => [before - n, `${agent.tenant}/stale-${n}`]);
    await rig.redis.zadd(list, ...stale.flat(), before + 60_000, `${agent.tenant}/kept`);
  }
  await rig.deadlines.hint(agent, 60_000);
  expect(await sizes()).toEqual([27, 27]);
  for (const left of [18, 9, 5, 6]) {
    await rig.deadlines.hint({ ...agent, parentId: newUid() }, 60_000);
    expect(await sizes()).toEqual([left, left]);
  }
  for (const list of lists) expect(await rig.redis.zscore(list, `${agent.tenant}/kept`)).not.toBeNull();
});

test("lists of parents that have another type keep no hint back", async () => {
  const rig = verbRig();
  const agent = rig.address();
  const { parents, tenantParents } = rig.keys;
  await rig.redis.set(parents, "foreign");
  await rig.redis.set(tenantParents(agent.tenant), "foreign");
  await rig.deadlines.hint(agent, 60_000);
  expect(await scoreOf(rig, agent)).toBeGreaterThan(await rig.redisNow());
});
