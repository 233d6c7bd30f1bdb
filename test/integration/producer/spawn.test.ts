import { Queue } from "bullmq";
import { describe, expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { createParent } from "../../../src/producer/parent.ts";
import type { SpawnInput } from "../../../src/producer/spawn-input.ts";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { createWorkerDirectory } from "../../../src/shared/redis/workers.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { refusal, testClient, testParent } from "../../helpers/parents.ts";
import { keysLike, redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const address = { tenant: "default", parentId: "planner-7" };
/** Priority of a wake that has no place yet. */
const LAST_IN_LINE = 2_097_151;

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level += 1) value = [value];
  return value;
}

describe("a refused spawn", () => {
  const bad: [what: string, input: Record<string, unknown>, sentence: RegExp][] = [
    ["an empty name", { name: "" }, /name/],
    ["a blank name", { name: "   " }, /name/],
    ["a name of 10 kB", { name: "x".repeat(10_240) }, /at most 100/],
    ["a name that is a path", { name: "../../x" }, /no slashes/],
    ["no name", {}, /name/],
    ["a system prompt of 300 KB", { name: "a", system: "x".repeat(300 * 1024) }, /system: at most 256 KB/],
    ["a description of 300 KB", { name: "a", description: "é".repeat(150 * 1024) }, /description/],
    ["a field nobody knows", { name: "a", sudo: true }, /sudo/],
    ["40 levels of JSON", { name: "a", limits: nested(40) }, /deeper than 32/],
    ["a limit of 0", { name: "a", limits: { max_turns: 0 } }, /limits\.max_turns/],
    ["a limit of -1", { name: "a", limits: { max_tokens: -1 } }, /limits\.max_tokens/],
    ["a limit of NaN", { name: "a", limits: { max_cost_usd: Number.NaN } }, /limits\.max_cost_usd/],
    [
      "an infinite limit",
      { name: "a", limits: { max_duration_ms: Number.POSITIVE_INFINITY } },
      /max_duration/,
    ],
    ["a limit above the ceiling", { name: "a", limits: { max_turns: 31 } }, /limits\.max_turns/],
    ["a limit above the default", { name: "a", limits: { max_turns: 21 } }, /max_turns 21 .*\(20\)/],
    ["a fraction of a turn", { name: "a", limits: { max_turns: 1.5 } }, /limits\.max_turns/],
    ["an alert threshold of 0", { name: "a", alerts: { turns: 0 } }, /alerts\.turns/],
    ["an idle time above the parent's", { name: "a", idle_ms: 600_001 }, /idle_ms 600001 .*\(600000\)/],
    ["a request key with a space", { name: "a", request_key: "a b" }, /request_key/],
    ["an over-long request key", { name: "a", request_key: "k".repeat(129) }, /request_key/],
    ["an empty tool name", { name: "a", tools: [""] }, /tools\.0/],
    ["tools that are no list", { name: "a", tools: "grep" }, /tools/],
  ];
  test.for(bad)("names what is wrong with %s and leaves nothing behind", async ([, input, sentence]) => {
    const parent = testParent(testClient());
    await expect(parent.spawn(input as SpawnInput)).rejects.toMatchObject(refusal("invalid_input", sentence));
    expect(await parent.list()).toEqual([]);
  });

  test("names field, wish and what is allowed when a limit would be widened", async () => {
    const parent = testParent(testClient(), { limits: { max_turns: 5 } });
    await expect(parent.spawn({ name: "a", limits: { max_turns: 6 } })).rejects.toMatchObject({
      code: "invalid_input",
      details: { field: "limits.max_turns", requested: 6, allowed: 5 },
    });
  });

  test("says that a cost cap needs a price, and passes once the operator gives one", async () => {
    const limits = { max_cost_usd: 1 };
    const input = { name: "a", model: "somebody-elses-1", limits };
    await expect(testParent(testClient()).spawn(input)).rejects.toMatchObject(
      refusal("unknown_price", /somebody-elses-1/),
    );
    const prices = { "somebody-elses-1": { input: 1, output: 1, cache_read: 1, cache_write: 1 } };
    const receipt = await testParent(testClient({ prices })).spawn(input);
    expect(receipt.limits.max_cost_usd).toBe(1);
  });

  test("asks for a model when none is named anywhere", async () => {
    const parent = testParent(testClient({ model: undefined }));
    await expect(parent.spawn({ name: "a" })).rejects.toMatchObject(refusal("invalid_input", /name a model/));
    expect((await parent.spawn({ name: "a", model: "offline-1" })).model).toBe("offline-1");
  });

  test("a sub-agent's identity is not accepted as a parent's", () => {
    const parentId = `sa-${"0".repeat(24)}`;
    expect(() => createParent({ parentId, model: "offline-1" })).toThrow(
      expect.objectContaining({ code: "nested_spawn" }),
    );
    expect(() => createParent({ parentId: "../x", model: "offline-1" })).toThrow(
      expect.objectContaining({ code: "invalid_input" }),
    );
  });

  test("a known tool outside the parent's list is refused, an unknown one is reported and not stored", async () => {
    const client = testClient();
    const parent = testParent(client, { tools: ["read_file", "grep"] });
    await expect(parent.spawn({ name: "a", tools: ["glob"] })).rejects.toMatchObject({
      code: "invalid_input",
      details: { field: "tools", requested: ["glob"], allowed: ["read_file", "grep"] },
    });
    const receipt = await parent.spawn({ name: "a", tools: ["grep", "teleport"] });
    expect(receipt.unknown_tools).toEqual(["teleport"]);
    const { store } = await internalsOf(client).open();
    const [uid = ""] = await store.liveUids(address);
    expect((await store.record({ ...address, uid }))?.spec.tools).toEqual(["grep"]);
  });
});

describe("a spawn", () => {
  test("answers with the receipt of an idle agent and its effective limits", async () => {
    const parent = testParent(testClient({ limits: { max_tokens: 4_000 } }), { limits: { max_turns: 10 } });
    const receipt = await parent.spawn({
      name: "Data Collector",
      description: "collects",
      limits: { max_turns: 3 },
    });
    expect(receipt).toEqual({
      agent_id: "data_collector",
      status: "created",
      known: false,
      name: "Data Collector",
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      model: "offline-1",
      limits: { max_turns: 3, max_tokens: 4_000, max_duration_ms: 1_800_000 },
      unknown_tools: [],
      in_force: {},
    });
    expect(await parent.get("data_collector")).toMatchObject({
      status: "idle",
      run: 0,
      description: "collects",
    });
  });

  test("gives a name without ASCII letters the id agent", async () => {
    const parent = testParent(testClient());
    expect((await parent.spawn({ name: "数据收集员" })).agent_id).toBe("agent");
    expect((await parent.spawn({ name: "数据" })).agent_id).toBe("agent_2");
  });

  test("stores unknown tools and reports them until a worker announces them", async () => {
    const prefix = uniquePrefix();
    const parent = testParent(testClient({ prefix }));
    const tools = ["grep", "crm_lookup"];
    expect((await parent.spawn({ name: "a", tools })).unknown_tools).toEqual(["crm_lookup"]);

    const worker = scriptedWorker(redisUrl(), prefix, address);
    // Until a worker is live none can be known to lack it: the agent waits for one that has it.
    const uid = await worker.uidOf("a");
    const { record } = keysUnder(prefix).agent({ ...address, uid });
    expect(await worker.redis.hget(record, "needs_tools")).toContain("crm_lookup");
    const directory = createWorkerDirectory(worker.redis, keysUnder(prefix));
    const about = {
      host: "h",
      version: "0.1.0",
      concurrency: 50,
    };
    await directory.announce({ id: "w1", tools: ["crm_lookup"], ...about });
    closeAtEnd(() => directory.withdraw("w1"));
    const later = testParent(testClient({ prefix }));
    expect((await later.spawn({ name: "a", tools })).unknown_tools).toEqual([]);
    await expect(later.spawn({ name: "b", tools: ["teleport", "crm_lookdown"] })).rejects.toMatchObject(
      refusal("invalid_input", /no worker has any of the tools teleport, crm_lookdown;/),
    );
    const misspelt = testParent(testClient({ prefix }), { tools: ["crm_lookdown"] });
    await expect(misspelt.spawn({ name: "c" })).rejects.toMatchObject(
      refusal("invalid_input", /tools crm_lookdown, which the parent's profile names;/),
    );
  });

  test("with a seen request key answers as before and makes nothing", async () => {
    const prefix = uniquePrefix();
    const parent = testParent(testClient({ prefix }));
    const input = { name: "A", limits: { max_turns: 2 }, request_key: "k1" };
    const first = await parent.spawn(input);
    const again = await parent.spawn({ request_key: "k1", limits: { max_turns: 2 }, name: "A" });
    expect(again).toEqual({ ...first, known: true });
    const elsewhere = testParent(testClient({ prefix, model: "another-model" }));
    expect(await elsewhere.spawn(input)).toEqual({ ...first, known: true });
    expect(await parent.list()).toHaveLength(1);
    await expect(parent.spawn({ ...input, name: "B" })).rejects.toMatchObject(refusal("conflict", /k1/));
    expect(await parent.list()).toHaveLength(1);
  });

  test("with a seen request key answers as before when the worker with its only tool has left", async () => {
    const prefix = uniquePrefix();
    const worker = scriptedWorker(redisUrl(), prefix, address);
    const directory = createWorkerDirectory(worker.redis, keysUnder(prefix));
    const about = { host: "h", version: "0.1.0", concurrency: 50 };
    await directory.announce({ id: "w1", tools: ["look_up_order"], ...about });
    const task = { prompt: "go", tools: ["look_up_order"], request_key: "k1" };
    const parent = testParent(testClient({ prefix }));
    const reply = parent.task(task);
    await worker.uidOf("task");
    await parent.destroy("task");
    expect(await reply).toMatchObject({ status: "cancelled" });
    await directory.withdraw("w1");
    await directory.announce({ id: "w2", tools: [], ...about });
    closeAtEnd(() => directory.withdraw("w2"));
    const later = testParent(testClient({ prefix }));
    expect(await later.task(task)).toEqual(await reply);
    for (const other of [{ prompt: "go on" }, { request_key: "k2" }, { request_key: undefined }])
      await expect(later.task({ ...task, ...other })).rejects.toMatchObject(
        refusal("invalid_input", /no worker has any of the tools look_up_order/),
      );
  });

  test("with a seen request key answers as before when a price or a limit has changed since", async () => {
    const prefix = uniquePrefix();
    const prices = { mythos: { input: 1, output: 1, cache_read: 1, cache_write: 1 } };
    const wishes: SpawnInput[] = [
      { name: "A", model: "mythos", limits: { max_cost_usd: 1 }, request_key: "price" },
      { name: "C", limits: { max_turns: 9 }, request_key: "limit" },
    ];
    const before = testParent(testClient({ prefix, prices }));
    const first = await Promise.all(wishes.map((wish) => before.spawn(wish)));
    const after = testParent(testClient({ prefix, limits: { max_turns: 8 } }));
    expect(await Promise.all(wishes.map((wish) => after.spawn(wish)))).toEqual(
      first.map((receipt) => ({ ...receipt, known: true })),
    );
    for (const wish of wishes)
      await expect(after.spawn({ ...wish, request_key: "new" })).rejects.toMatchObject({
        code: expect.stringMatching(/^(unknown_price|invalid_input)$/),
      });
    expect(await after.list()).toHaveLength(2);
    // The key is remembered longer than an agent that has ended.
    const { redis } = scriptedWorker(redisUrl(), prefix, address);
    const keys = keysUnder(prefix);
    const uids = await redis.hkeys(keys.parent(address).live);
    await redis.del(uids.map((uid) => keys.agent({ ...address, uid }).record));
    await expect(after.spawn({ ...wishes[1], name: "C" })).rejects.toMatchObject(
      refusal("invalid_input", /max_turns/),
    );
  });

  test("of a task with a seen request key wakes its agent if the first one ended before it had", async () => {
    const prefix = uniquePrefix();
    const worker = scriptedWorker(redisUrl(), prefix, address);
    const task = { prompt: "go", request_key: "k1" };
    const [first, again] = [testParent(testClient({ prefix })), testParent(testClient({ prefix }))];
    const replies = [first.task(task)];
    const { wakeQueue, bullPrefix } = keysUnder(prefix);
    const queue = new Queue(wakeQueue, { connection: worker.redis, prefix: bullPrefix });
    closeAtEnd(() => queue.close());
    const id = `${await worker.uidOf("task")}.1`;
    // Nothing touches it any more when it has its place in the line.
    const wake = await until(async () => {
      const job = await queue.getJob(id);
      return job && job.priority < LAST_IN_LINE && job;
    });
    await wake.remove();
    replies.push(again.task(task));
    await until(() => queue.getJob(id), { what: "the wake of the second call" });
    await again.destroy("task");
    expect(await Promise.all(replies)).toMatchObject([{ status: "cancelled" }, { status: "cancelled" }]);
  });

  test("put 50 times at once with one request key makes one agent and 50 equal answers", async () => {
    const prefix = uniquePrefix();
    const parents = [1, 2, 3, 4, 5].map(() => testParent(testClient({ prefix })));
    const calls = Array.from({ length: 50 }, (_, i) =>
      parents[i % parents.length]?.spawn({ name: "only", request_key: "one" }),
    );
    const receipts = await Promise.all(calls);
    const equal = receipts.map((receipt) => JSON.stringify({ ...receipt, known: true }));
    expect(new Set(equal).size).toBe(1);
    expect(receipts.filter((receipt) => receipt?.known === false)).toHaveLength(1);
    expect(await parents[0]?.list()).toHaveLength(1);
  });
});

describe("the quota", () => {
  test("refuses the eleventh spawn and names the ten", async () => {
    const parent = testParent(testClient());
    for (let i = 0; i < 10; i += 1) await parent.spawn({ name: "a" });
    await expect(parent.spawn({ name: "a" })).rejects.toMatchObject({
      code: "quota_exceeded",
      message: expect.stringMatching(/10 live .*destroy one of a, a_10, a_2/),
      details: { max_live: 10, agents: expect.arrayContaining(["a", "a_10"]) },
    });
    await parent.destroy("a_3");
    expect((await parent.spawn({ name: "a" })).agent_id).toBe("a_11");
  });

  test("wakes no worker for a task that it refuses", async () => {
    const prefix = uniquePrefix();
    const client = testClient({ prefix });
    const parent = testParent(client);
    for (let i = 0; i < 10; i += 1) await parent.spawn({ name: "a" });
    await expect(parent.task("go")).rejects.toMatchObject({ code: "quota_exceeded" });
    // What goes on in the background is over then.
    await client.stop();
    const { redis } = scriptedWorker(redisUrl(), prefix, address);
    expect(await keysLike(redis, `*${prefix}*${keysUnder(prefix).wakeQueue}*`)).toEqual([]);
  });

  test("gives places back whose agents are idle beyond their time, without any sweeper", async () => {
    const prefix = uniquePrefix();
    const parent = testParent(testClient({ prefix }), { idle_ms: 1 });
    const { redis, store } = scriptedWorker(redisUrl(), prefix, address);
    for (let i = 0; i < 10; i += 1) await parent.spawn({ name: "short" });
    const lives = (await store.liveUids(address)).map((uid) => store.keys.agent({ ...address, uid }).life);
    await until(async () => (await redis.exists(...lives)) === 0);
    expect((await parent.spawn({ name: "next" })).agent_id).toBe("next");
    expect((await parent.list()).map((agent) => agent.agent_id)).toEqual(["next"]);
    expect(await parent.get("short_2")).toMatchObject({ status: "ended", ended_reason: "idle" });
  });

  test("gives them back before it asks again, also on a Redis that has forgotten the scripts", async () => {
    const stage = await openStage({ redis: "own" });
    const parent = testParent(stage.client(), { idle_ms: 1 });
    // From now on this connection calls the scripts by their digests.
    await parent.spawn({ name: "first" });
    await parent.destroy("first");
    for (let i = 0; i < 10; i += 1) await parent.spawn({ name: "short" });
    const uids = await stage.store.liveUids(address);
    const lives = uids.map((uid) => stage.keys.agent({ ...address, uid }).life);
    await until(async () => (await stage.redis.exists(...lives)) === 0);
    await stage.redis.script("FLUSH");
    expect((await parent.spawn({ name: "next" })).agent_id).toBe("next");
  });

  test("admits exactly 10 of 11 parallel spawns, in 200 rounds over four clients", async () => {
    const prefix = uniquePrefix();
    const clients = [1, 2, 3, 4].map(() => testClient({ prefix, timing: TIMING }));
    for (let round = 0; round < 200; round += 1) {
      const parents = clients.map((client) => createParent({ parentId: `p${round}`, client }));
      const spawns = Array.from({ length: 11 }, (_, i) => parents[i % 4]?.spawn({ name: "racer" }));
      const outcomes = await Promise.allSettled(spawns);
      const refused = outcomes.flatMap((o) => (o.status === "rejected" ? [o.reason.code] : []));
      expect(refused).toEqual(["quota_exceeded"]);
      expect(await parents[0]?.list()).toHaveLength(10);
    }
  });
});

test("a request key that its caller named also as a message id is remembered when the agent's end is acked", async () => {
  const prefix = uniquePrefix();
  const parent = testParent(testClient({ prefix }));
  const worker = scriptedWorker(redisUrl(), prefix, address);
  // As the intake does for a request with keep_alive.
  const request = async () => {
    const { agent_id, known } = await parent.spawn({ name: "a", keep_alive: true, request_key: "order-17" });
    const { run } = await parent.send(agent_id, "go", { message_id: "order-17" });
    return { agent_id, known, run };
  };
  const first = await request();
  await worker.run("a");
  const { value: end } = await parent.replies().next();
  expect(end).toMatchObject({ agent_status: "ended", message_ids: ["order-17"] });
  await end?.ack();
  expect(await request()).toEqual({ ...first, known: true });
});
