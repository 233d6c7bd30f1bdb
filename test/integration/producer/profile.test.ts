/** The profile that is registered for a parent: versions, what it narrows, what an agent keeps of it, through every door. */
import { describe, expect, test, vi } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { createParent, type Parent } from "../../../src/producer/parent.ts";
import { openThread } from "../../../src/service/agent-protocol/thread.ts";
import { createIntakeQuota } from "../../../src/service/intake/quota.ts";
import { handOver } from "../../../src/service/intake/spawn.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { openMonitor } from "../../helpers/monitor.ts";
import { refusal, started, testClient, testParent } from "../../helpers/parents.ts";
import { masterUrls, redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";

const address = { tenant: "default", parentId: "planner-7" };

/** Two clients of one installation: what one registers, the other learns from its spawns alone. */
function twoParents(): { registers: Parent; spawns: Parent; prefix: string } {
  const prefix = uniquePrefix();
  const other = { prefix, model: undefined };
  return { registers: testParent(testClient({ prefix })), spawns: testParent(testClient(other)), prefix };
}

test("a version is counted up when the profile differs, and only then, whatever the order of its fields", async () => {
  const parent = testParent(testClient());
  expect(await parent.profile()).toEqual({ parent_id: "planner-7", version: 0, profile: {} });
  const first = await parent.register({ limits: { max_turns: 5, max_tokens: 900 }, tools: ["Read", "Grep"] });
  expect(first).toMatchObject({
    version: 1,
    changed: true,
    profile: { tools: ["read_file", "grep"] },
    registered_at: expect.stringMatching(/^\d{4}-/),
  });
  const same = { tools: ["read_file", "grep"], limits: { max_tokens: 900, max_turns: 5 } };
  expect(await parent.register(same)).toEqual({ ...first, changed: false });
  expect(await parent.register({})).toMatchObject({ version: 2, changed: true, profile: {} });
  const { changed: _, ...third } = await parent.register(same);
  expect(third.version).toBe(3);
  expect(await parent.profile()).toEqual(third);
});

test("concurrent registrations of two profiles take one version each", async () => {
  const { registers, spawns } = twoParents();
  const made = await Promise.all(
    Array.from({ length: 8 }, (_, i) => (i % 2 ? registers : spawns).register({ system: `Be ${i}.` })),
  );
  expect(made.map(({ version }) => version).sort()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
});

test("what is malformed, or wider than the operator allows, is not registered", async () => {
  const parent = testParent(testClient({ limits: { max_turns: 12 } }));
  for (const wrong of [{ colour: "red" }, { limits: { max_turns: 13 } }, { system: " " }, { idle_ms: 0 }])
    await expect(parent.register(wrong)).rejects.toMatchObject(refusal("invalid_input", /^register refused/));
  expect((await parent.profile()).version).toBe(0);
});

test("a process that never heard of the profile spawns under it, and the receipt says which version is in force", async () => {
  const { registers, spawns } = twoParents();
  const permissions = { deny: ["bash"] };
  await registers.register({
    model: "offline-1",
    tools: ["read_file", "grep"],
    hooks: ["audit"],
    permissions,
    limits: { max_turns: 5 },
  });
  const receipt = await spawns.spawn({ name: "a", hooks: ["more"], permissions: { deny: ["grep"] } });
  expect(receipt).toMatchObject({ model: "offline-1", limits: { max_turns: 5 } });
  expect(receipt.in_force).toEqual({
    profile_version: 1,
    tools: ["read_file", "grep"],
    hooks: ["audit", "more"],
    permissions: [permissions, { deny: ["grep"] }],
  });
});

test("a profile that changed is in force at the next spawn of a process that knew the old one; live agents keep theirs", async () => {
  const { registers, spawns } = twoParents();
  await registers.register({ model: "offline-1", system: "Be brief." });
  const before = await spawns.spawn({ name: "before" });
  await registers.register({ model: "offline-1", system: "Be long.", limits: { max_turns: 3 } });
  const after = await spawns.spawn({ name: "after" });
  expect([before.in_force.profile_version, after.in_force.profile_version]).toEqual([1, 2]);
  expect([before.limits.max_turns, after.limits.max_turns]).toEqual([20, 3]);
});

test("a spawn and a parent's options may narrow it, and are refused where they ask for more", async () => {
  const { registers, spawns } = twoParents();
  const client = testClient({ prefix: uniquePrefix() });
  await registers.register({
    model: "offline-1",
    tools: ["read_file"],
    limits: { max_turns: 5 },
    idle_ms: 5_000,
  });
  const wider = [{ limits: { max_turns: 6 } }, { tools: ["grep"] }, { idle_ms: 5_001 }];
  for (const wish of wider)
    await expect(spawns.spawn({ name: "a", ...wish })).rejects.toMatchObject(
      refusal("invalid_input", /more than is allowed/),
    );
  expect((await spawns.spawn({ name: "a", limits: { max_turns: 4 } })).limits.max_turns).toBe(4);

  const parent = (options: object) => createParent({ parentId: "planner-7", client, ...options });
  await parent({}).register({ tools: ["read_file"], limits: { max_turns: 5 }, idle_ms: 5_000 });
  for (const options of wider)
    await expect(parent(options).spawn({ name: "a" })).rejects.toMatchObject(
      refusal(
        "invalid_input",
        /createParent \(under version 1 of the registered profile\) refused.*more than is allowed/,
      ),
    );
  const narrow = await parent({ limits: { max_turns: 4 }, idle_ms: 4_000 }).spawn({ name: "a" });
  expect(narrow).toMatchObject({ limits: { max_turns: 4 }, in_force: { profile_version: 1 } });
});

test("what is undefined lifts no limit: not the operator's, and not the registered profile's", async () => {
  const limits = { max_turns: undefined, max_tokens: undefined };
  const client = testClient({ limits: { ...limits, max_duration_ms: 60_000 } });
  const unset = { max_turns: 20, max_tokens: 8_000, max_duration_ms: 60_000 };
  expect((await testParent(client, { limits }).spawn({ name: "a", limits })).limits).toEqual(unset);
  await testParent(client).register({ limits: { max_turns: 5 }, alerts: { turns: 3 } });
  const parent = testParent(client, { limits, alerts: { turns: undefined } });
  const { agent_id, limits: inForce } = await parent.spawn({
    name: "b",
    limits,
    alerts: { turns: undefined },
  });
  expect(inForce).toEqual({ ...unset, max_turns: 5 });
  expect((await parent.get(agent_id)).limits).toEqual({ ...unset, max_turns: 5 });
});

test("a batch is refused by the profile before any of it has begun", async () => {
  const { registers, spawns } = twoParents();
  await registers.register({ model: "offline-1", limits: { max_turns: 5 } });
  const prompts = [{ prompt: "one" }, { prompt: "two", limits: { max_turns: 6 } }];
  await expect(spawns.taskAll(prompts)).rejects.toMatchObject({
    ...refusal("invalid_input", /^inputs\[1\]: .*max_turns 6/),
    details: { index: 1, field: "1.limits.max_turns" },
  });
  expect(await spawns.list()).toEqual([]);
});

describe("a profile that was widened", () => {
  const narrow = { limits: { max_turns: 5 }, tools: ["read_file"] };
  const wide = { model: "offline-1", limits: { max_turns: 20 }, tools: ["read_file", "grep"] };
  /** Each is refused under the narrow one. */
  const wider = [{ limits: { max_turns: 10 } }, { tools: ["grep"] }, { model: undefined }];

  /** A process that knows the narrow profile, of which another process has made the wide one. */
  async function scene() {
    const { registers, spawns, prefix } = twoParents();
    await registers.register(narrow);
    await spawns.spawn({ name: "before", model: "offline-1" });
    await registers.register(wide);
    return { registers, spawns, worker: scriptedWorker(redisUrl(), prefix, address) };
  }

  test.for(wider)("allows %j to a process that knew the narrow one", async (wish) => {
    const { spawns } = await scene();
    const { in_force } = await spawns.spawn({ name: "a", model: "offline-1", ...wish });
    expect(in_force.profile_version).toBe(2);
  });

  test("allows a batch and a schedule there, too", async () => {
    const { spawns, worker } = await scene();
    const replies = spawns.taskAll([{ prompt: "go", limits: { max_turns: 10 } }]);
    await worker.run("task");
    expect(await replies).toHaveLength(1);
    const hourly = { schedule_id: "hourly", every_ms: 3_600_000, prompt: "go" };
    expect(await spawns.schedule({ ...hourly, limits: { max_turns: 10 } })).toMatchObject({ paused: false });
  });

  test("still refuses what is wider than it", async () => {
    const { spawns } = await scene();
    await expect(spawns.spawn({ name: "a", limits: { max_turns: 21 } })).rejects.toMatchObject(
      refusal("invalid_input", /max_turns 21 is more than is allowed here \(20\)/),
    );
  });
});

test("a batch is held against the profile as it is, not as this process knows it", async () => {
  const { registers, spawns } = twoParents();
  await registers.register({ model: "offline-1" });
  await spawns.spawn({ name: "before" });
  await registers.register({ model: "offline-1", limits: { max_turns: 5 } });
  const prompts = [{ prompt: "one" }, { prompt: "two", limits: { max_turns: 6 } }];
  await expect(spawns.taskAll(prompts)).rejects.toMatchObject(refusal("invalid_input", /max_turns 6/));
  expect((await spawns.list()).map(({ agent_id }) => agent_id)).toEqual(["before"]);
});

test("a repeated request key finds its agent, also after the profile has changed", async () => {
  const { registers, spawns } = twoParents();
  await registers.register({ model: "offline-1" });
  const first = await spawns.spawn({ name: "a", request_key: "once" });
  await registers.register({ model: "offline-1", limits: { max_turns: 2 } });
  const again = await spawns.spawn({ name: "a", request_key: "once" });
  expect(again).toEqual({ ...first, known: true });
});

test("one verb spawns where nothing is registered, and where this process knows the profile", async () => {
  const client = testClient();
  const parent = testParent(client);
  await client.start();
  const { keys, redis } = await internalsOf(client).open();
  const { profile } = keys.parent(address);
  const touched: string[] = [];
  const monitors = await Promise.all(
    masterUrls(redis).map((url) =>
      openMonitor(url, (_at, [command = "", key], source) => {
        if (key === profile) touched.push(`${source === "lua" ? "lua " : ""}${command.toLowerCase()}`);
      }),
    ),
  );
  await parent.spawn({ name: "a" });
  await parent.register({ tools: ["grep"] });
  await parent.spawn({ name: "b" });
  for (const monitor of monitors) {
    await monitor.caughtUp();
    monitor.stop();
  }
  // Each spawn reads it inside its script, the registration reads and writes it: nothing asks for it beside.
  expect(touched).toEqual(["lua hmget", "lua hmget", "lua hset", "lua hmget"]);
});

test("what a newer version registered is not guessed at: nothing is spawned", async () => {
  const client = testClient();
  const parent = testParent(client);
  await client.start();
  const { store } = await internalsOf(client).open();
  await store.register({ ...address, uid: "" }, { content: '{"rules_of_the_future":[]}' });
  await expect(parent.spawn({ name: "a" })).rejects.toMatchObject(
    refusal("protocol_violation", /newer version/),
  );
  expect(await parent.list()).toEqual([]);
});

test("the intake and the Agent Protocol spawn under it as well", async () => {
  const client = testClient({ model: undefined });
  const parent = testParent(client);
  await parent.register({ model: "offline-1", limits: { max_turns: 5 } });
  const wish = {
    v: 1 as const,
    tenant: "default",
    parent_id: "planner-7",
    prompt: "go",
    reply: "channel" as const,
  };
  const logger = createLogger({ level: "silent" });
  await handOver(client, wish, "1-0", createIntakeQuota(client, systemClock, logger));
  await openThread(client, "default", "planner-7", `sa-${"0".repeat(24)}`).begin({
    assistantId: "researcher",
    text: "go",
  });
  const agents = await parent.list();
  expect(agents.map(({ limits }) => limits.max_turns)).toEqual([5, 5]);
});

test("a call that is made again after the profile was narrowed is answered as before, and makes nothing", async () => {
  const { registers, spawns, prefix } = twoParents();
  await registers.register({ model: "offline-1" });
  const wish = { name: "a", limits: { max_turns: 10 }, request_key: "k1" };
  const first = await spawns.spawn(wish);
  const task = { prompt: "go", limits: { max_turns: 10 }, request_key: "k2" };
  const reply = spawns.taskAll([task]);
  await scriptedWorker(redisUrl(), prefix, address).run("task", { summary: "done" });
  expect(await reply).toMatchObject([{ summary: "done" }]);
  await registers.register({ model: "offline-1", limits: { max_turns: 5 } });
  const fresh = testParent(testClient({ prefix }));
  for (const parent of [spawns, registers, fresh]) {
    expect(await parent.spawn(wish)).toEqual({ ...first, known: true });
    expect(await parent.taskAll([task])).toEqual(await reply);
    await expect(parent.spawn({ ...wish, limits: { max_turns: 9 } })).rejects.toMatchObject(
      refusal("invalid_input", /max_turns 9/),
    );
  }
  expect(await spawns.list()).toHaveLength(1);
});

test("a client remembers the profiles of 10,000 parents, and forgets the oldest", async () => {
  const { profiles } = await internalsOf(await started(testClient())).open();
  const parentOf = (n: number) => ({ tenant: "default", parentId: `p-${n}` });
  for (let n = 0; n <= 10_000; n += 1) profiles.learn(parentOf(n), { profile_version: 1, content: "{}" });
  expect([0, 1, 10_000].map((n) => profiles.known(parentOf(n))?.version)).toEqual([undefined, 1, 1]);
});

test("of long profiles a client remembers 2 Mi characters, and in any case the newest", async () => {
  const { profiles } = await internalsOf(await started(testClient())).open();
  const parentOf = (n: number) => ({ tenant: "default", parentId: `p-${n}` });
  const learn = (n: number, chars: number) =>
    profiles.learn(parentOf(n), { profile_version: 1, content: "{}".padEnd(chars) });
  const known = () => Array.from({ length: 20 }, (_, n) => n).filter((n) => profiles.known(parentOf(n)));
  const quarter = 512 * 1024;
  for (let n = 0; n < 6; n += 1) learn(n, quarter);
  expect(known()).toEqual([2, 3, 4, 5]);
  for (let n = 0; n < 6; n += 1) learn(4, quarter);
  expect(known()).toEqual([2, 3, 4, 5]);
  learn(6, 1);
  expect(known()).toEqual([3, 4, 5, 6]);
  learn(7, 3 * 1024 * 1024);
  expect(known()).toEqual([7]);
});

test("a spawn under a profile that is too long to be remembered beside others is made under it", async () => {
  const prefix = uniquePrefix();
  const spawner = testClient({ prefix });
  const { profiles } = await internalsOf(await started(spawner)).open();
  await testParent(testClient({ prefix })).register({ limits: { max_turns: 5 } });
  const learn = profiles.learn.bind(profiles);
  // Each profile that Redis returns is followed by so many of other parents that it is dropped at once.
  vi.spyOn(profiles, "learn").mockImplementation((parent, stored) => {
    const learned = learn(parent, stored);
    learn({ tenant: "default", parentId: "other" }, { profile_version: 1, content: "{}".padEnd(3 << 20) });
    return learned;
  });
  const receipt = await testParent(spawner).spawn({ name: "a" });
  expect(receipt).toMatchObject({ limits: { max_turns: 5 }, in_force: { profile_version: 1 } });
  expect(profiles.known({ tenant: "default", parentId: "planner-7" })).toBeUndefined();
});

test("a task under a registered profile is the one that its caller gave, however the caller's object changes then", async () => {
  const prefix = uniquePrefix();
  const parent = testParent(testClient({ prefix }));
  await parent.register({ limits: { max_turns: 9 } });
  const worker = scriptedWorker(redisUrl(), prefix, { tenant: "default", parentId: "planner-7" });
  const input = { name: "a", prompt: "first", limits: { max_turns: 3 } };
  const task = parent.task(input);
  Object.assign(input, { name: "b", prompt: "second" });
  input.limits.max_turns = 4;
  expect(await task.started).toMatchObject({ agent_id: "a", limits: { max_turns: 3 } });
  expect(await worker.run("a")).toEqual(["first"]);
  await task;
});

test("options of a task that are a list are refused", async () => {
  const options = [] as unknown as object;
  await expect(testParent(testClient()).task("go", options)).rejects.toMatchObject(
    refusal("invalid_input", /must be an object/),
  );
});
