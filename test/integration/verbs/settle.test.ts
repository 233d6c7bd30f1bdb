import { expect, test } from "vitest";
import { NOTHING_DONE, partsOf } from "../../../src/shared/protocol/reply.ts";
import { createAgentStore } from "../../../src/shared/redis/agent-store.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { itemOfRing } from "../../../src/shared/redis/replies.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import {
  bodyOf,
  DESTROY,
  handedBack,
  IDLE_END,
  MAX_AGE_END,
  type Rig,
  sentOf,
  verbRig,
  wellDone,
} from "./rig.ts";

const DAY_MS = 24 * 3_600_000;
const entriesOf = async (rig: Rig) =>
  (await rig.replies.read(rig.parent, "0", 100)).map(({ entry }) => entry);
const readAll = (rig: Rig, agent: ReturnType<Rig["address"]>, epoch: number) =>
  rig.readFirst(agent, epoch, { ...partsOf(bodyOf("so far")) });

test("the end of a run without keep-alive is one reply, and the agent is ended and gone from the live ones", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await readAll(rig, agent, epoch);
  expect(await rig.store.settle(agent, wellDone(epoch))).toMatchObject({
    status: "settled",
    reply_id: `${agent.uid}.1`,
    agent_status: "ended",
    run: 1,
    wake: 0,
  });
  expect(await entriesOf(rig)).toEqual([
    {
      ...bodyOf("done"),
      reply_id: `${agent.uid}.1`,
      parent_id: "planner-7",
      agent_id: "researcher",
      name: "Researcher",
      run: 1,
      kind: "reply",
      status: "succeeded",
      stop_reason: "end_turn",
      agent_status: "ended",
      message_ids: [],
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    },
  ]);
  expect(await rig.store.record(agent)).toMatchObject({ status: "ended", ended_reason: "completed" });
  expect(await rig.store.liveUids(rig.parent)).toEqual([]);
});

test("a natural end with an unread message goes on, and changes nothing", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await readAll(rig, agent, epoch);
  await rig.send(agent, "one more thing");
  const before = await rig.everything();
  expect(await rig.store.settle(agent, wellDone(epoch))).toMatchObject({ status: "more", inbox: 1 });
  expect(await rig.everything()).toEqual(before);
});

test("an end at a cap takes place with unread messages and lists them as undelivered, in order", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await readAll(rig, agent, epoch);
  await rig.send(agent, 'two, with ] and "quotes"', "m-2");
  await rig.send(agent, "three", "m-3");
  await rig.store.settle(agent, handedBack(epoch));
  expect(await entriesOf(rig)).toMatchObject([
    { status: "partial", stop_reason: "max_turns", undelivered: ["m-2", "m-3"] },
  ]);
});

test("of two ends the first one wins and the second one learns of it", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.store.settle(agent, DESTROY);
  const before = await rig.everything();
  const same = { status: "same", ended_reason: "destroyed", agent_status: "ended" };
  expect(await rig.store.settle(agent, handedBack(epoch))).toMatchObject(same);
  expect(await rig.store.settle(agent, DESTROY)).toMatchObject(same);
  expect(await rig.store.settle(agent, MAX_AGE_END)).toMatchObject(same);
  expect(await rig.everything()).toEqual(before);
});

test("destroying against settling, a hundred times: always one entry, and both sides know which", async () => {
  const rig = verbRig();
  const connection = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(connection));
  const elsewhere = createAgentStore(connection, rig.keys);
  for (let i = 0; i < 100; i += 1) {
    const { agent, epoch } = await rig.running();
    const answers = await Promise.all([
      rig.store.settle(agent, handedBack(epoch)),
      elsewhere.settle(agent, DESTROY),
    ]);
    expect(answers.map(({ status }) => status).sort()).toEqual(["same", "settled"]);
  }
  expect(await entriesOf(rig)).toHaveLength(100);
});

test("destroy ends a running agent by authority: the epoch moves on and the entry carries what the run had", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await readAll(rig, agent, epoch);
  await rig.send(agent, "two", "m-2");
  expect(await rig.store.settle(agent, DESTROY)).toMatchObject({
    status: "settled",
    reply_id: `${agent.uid}.1`,
  });
  expect((await rig.store.record(agent))?.epoch).toBe(epoch + 1);
  expect(await entriesOf(rig)).toMatchObject([
    {
      ...bodyOf("so far"),
      kind: "ended",
      status: "cancelled",
      stop_reason: "destroyed",
      undelivered: ["m-2"],
    },
  ]);
});

test("destroying a running agent tells its worker by a hint; a queued or idle one has nobody to tell", async () => {
  const rig = verbRig();
  const subscriber = openRedis(redisUrl(), "subscriber");
  closeAtEnd(() => closeRedis(subscriber));
  const heard: string[] = [];
  await subscriber.subscribe(rig.keys.hints);
  subscriber.on("message", (_channel, uid) => heard.push(uid));
  // A cluster keeps the order of what one node publishes: the last of them is one parent's like the others.
  const [{ agent: first }, { agent: last }] = [await rig.running(), await rig.running()];
  for (const each of [await rig.spawn(), await rig.queued(), first, await rig.spawn(), last])
    await rig.store.settle(each, DESTROY);
  await until(() => heard.includes(last.uid), { what: "the last hint" });
  expect(heard).toEqual([first.uid, last.uid]);
});

test("every entry rings the parent's doorbell with the whole entry", async () => {
  const rig = verbRig();
  const subscriber = openRedis(redisUrl(), "subscriber");
  closeAtEnd(() => closeRedis(subscriber));
  const heard: string[] = [];
  await subscriber.subscribe(rig.keys.parent(rig.parent).doorbell);
  subscriber.on("message", (_channel, ring) => heard.push(itemOfRing(ring)?.entry.reply_id ?? ""));
  const { agent, epoch } = await rig.running();
  await rig.store.append(agent, {
    epoch,
    known: 0,
    running_ms: 1,
    entries: [["0", "{}"]],
    interim_id: "i-1",
    interim: "x",
  });
  await rig.store.settle(agent, handedBack(epoch));
  const last = await rig.spawn();
  await rig.store.settle(last, DESTROY);
  await until(() => heard.includes(`${last.uid}.end`), { what: "the last bell" });
  expect(heard).toEqual(["i-1", `${agent.uid}.1`, `${last.uid}.end`]);
});

test("destroying a queued agent: the run that never began is reported as cancelled, its message as undelivered", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  await rig.send(agent, "look", "m-1");
  await rig.store.settle(agent, DESTROY);
  expect(await entriesOf(rig)).toMatchObject([
    { kind: "ended", turns: 0, summary: "(no summary)", run: 1, undelivered: ["m-1"] },
  ]);
  expect(await rig.store.claim(agent, { claim_id: "c", worker: "w" })).toMatchObject({ status: "nothing" });
});

test("the end of an idle agent never takes the id or the counters of the run it has replied to", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await readAll(rig, agent, epoch);
  await rig.store.settle(agent, { ...wellDone(epoch), target: "idle", idle_ms: 60_000 });
  await rig.store.settle(agent, DESTROY);
  expect(await entriesOf(rig)).toMatchObject([
    { kind: "reply", reply_id: `${agent.uid}.1`, agent_status: "idle", summary: "done" },
    { kind: "ended", reply_id: `${agent.uid}.end`, agent_status: "ended", summary: "(no summary)", turns: 0 },
  ]);
});

test("a kept-alive agent is idle after its reply, keeps its conversation and has its idle time before it", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await readAll(rig, agent, epoch);
  const before = await rig.redisNow();
  const settled = await rig.store.settle(agent, { ...wellDone(epoch), target: "idle", idle_ms: 60_000 });
  expect(settled).toMatchObject({ status: "settled", agent_status: "idle" });
  const state = await rig.store.load(agent);
  expect(state?.record).toMatchObject({ status: "idle", epoch });
  expect(state?.log.size).toBe(1);
  const left = await rig.redis.pttl(rig.keys.agent(agent).life);
  expect(left).toBeGreaterThanOrEqual(60_000 - ((await rig.redisNow()) - before));
  expect(left).toBeLessThanOrEqual(60_000);
  expect(await rig.store.liveUids(rig.parent)).toEqual([agent.uid]);
});

test("a kept-alive agent whose caller names no idle time gets the standard ten minutes", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await readAll(rig, agent, epoch);
  expect(await rig.store.settle(agent, { ...wellDone(epoch), target: "idle" })).toMatchObject({
    status: "settled",
  });
  expect(await rig.redis.pttl(rig.keys.agent(agent).life)).toBeGreaterThan(590_000);
});

test("a kept-alive agent with an unread message is queued again at once, with a new run and a new wake", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await readAll(rig, agent, epoch);
  await rig.send(agent, "two");
  const settle = { ...handedBack(epoch), target: "idle" as const, idleMs: 60_000 };
  expect(await rig.store.settle(agent, settle)).toMatchObject({
    status: "settled",
    agent_status: "queued",
    run: 1,
    wake: 2,
  });
  expect(await rig.store.record(agent)).toMatchObject({ status: "queued", run: 2, wake: 2, running_ms: 0 });
  expect(await rig.redis.pttl(rig.keys.agent(agent).life)).toBe(-1);
  expect(await entriesOf(rig)).toMatchObject([{ run: 1, agent_status: "queued" }]);
  expect((await entriesOf(rig))[0]).not.toHaveProperty("undelivered");
  expect(await rig.store.settle(agent, settle)).toMatchObject({
    status: "same",
    agent_status: "queued",
    run: 2,
    wake: 2,
  });
});

test("a sweeper may not end an idle agent early, nor one that has been revived", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  const before = await rig.everything();
  const early = await rig.store.settle(agent, IDLE_END);
  expect(early.status).toBe("not_due");
  if (early.status === "not_due")
    expect(Number(early.deadline)).toBeGreaterThan((await rig.redisNow()) + 590_000);
  expect(await rig.everything()).toEqual(before);
  for (const each of [await rig.queued(), (await rig.running()).agent])
    expect(await rig.store.settle(each, IDLE_END)).toMatchObject({ status: "not_due" });
  expect(await entriesOf(rig)).toEqual([]);
});

test("a sweeper ends an agent whose idle time is over", async () => {
  const rig = verbRig();
  const agent = await rig.spawn({ idleMs: 1 });
  await rig.redisReaches((await rig.redisNow()) + 3);
  expect(await rig.store.settle(agent, IDLE_END)).toMatchObject({
    status: "settled",
    reply_id: `${agent.uid}.end`,
  });
  expect(await rig.store.record(agent)).toMatchObject({ status: "ended", ended_reason: "idle", epoch: 1 });
  expect(await entriesOf(rig)).toMatchObject([{ kind: "ended", status: "cancelled", stop_reason: "idle" }]);
});

test("a sweeper ends a run at the greatest age of its message, not before, and never an idle agent for it", async () => {
  const patient = verbRig();
  expect(await patient.store.settle((await patient.running()).agent, MAX_AGE_END)).toMatchObject({
    status: "not_due",
  });
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await readAll(rig, agent, epoch);
  const idle = await rig.spawn();
  await rig.age(agent);
  expect(await rig.store.settle(idle, MAX_AGE_END)).toMatchObject({ status: "not_due" });
  expect(await rig.store.settle(agent, MAX_AGE_END)).toMatchObject({ status: "settled" });
  expect(await rig.store.renew(agent, { epoch, running_ms: 1 })).toMatchObject({ status: "stale" });
  expect(await entriesOf(rig)).toMatchObject([
    { kind: "ended", status: "failed", stop_reason: "max_age", summary: "so far" },
  ]);
});

test("nobody settles an agent that does not exist", async () => {
  const rig = verbRig();
  expect(await rig.store.settle(rig.address(), DESTROY)).toMatchObject({ status: "unknown" });
  expect(await rig.everything()).toEqual({});
});

test("what an ended agent leaves: record, timeline and text for seven days; log, inbox and life key nothing", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const whole = { run: 1, summary: "the", whole_text: "the whole text" };
  await rig.store.append(agent, {
    epoch,
    known: 0,
    running_ms: 1,
    entries: [["0", "{}"]],
    advances: true,
    ...whole,
    events: "{}",
  });
  await rig.redis.pexpire(rig.keys.parent(rig.parent).text(`${agent.uid}.1`), 1_000);
  const { summary: _, ...ended } = handedBack(epoch);
  await rig.store.settle(agent, ended);
  const { record, timeline, log, inbox, life } = rig.keys.agent(agent);
  const ofParent = rig.keys.parent(rig.parent);
  for (const key of [record, timeline, ofParent.replies, ofParent.text(`${agent.uid}.1`)]) {
    const left = await rig.redis.pttl(key);
    expect(left, key).toBeGreaterThan(7 * DAY_MS - 60_000);
    expect(left, key).toBeLessThanOrEqual(7 * DAY_MS);
  }
  expect(await rig.redis.exists(log, inbox, life)).toBe(0);
  expect(await rig.store.fullText(rig.parent, `${agent.uid}.1`)).toBe("the whole text");
});

test("a live agent's record, log and registration have no time limit", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await readAll(rig, agent, epoch);
  const { record, log } = rig.keys.agent(agent);
  for (const key of [record, log, rig.keys.parent(rig.parent).live])
    expect(await rig.redis.pttl(key), key).toBe(-1);
});

test("entries older than seven days leave the channel with the next settle", async () => {
  const rig = verbRig({ timing: { replyTtlMs: 60_000 } });
  const { replies } = rig.keys.parent(rig.parent);
  const now = await rig.redisNow();
  await rig.redis.xadd(replies, `${now - 61_000}-0`, "v", "1");
  await rig.redis.xadd(replies, `${now - 50_000}-0`, "v", "1");
  const { agent, epoch } = await rig.running();
  await rig.store.settle(agent, handedBack(epoch));
  expect(await rig.redis.xlen(replies)).toBe(2);
});

test("a refusal is told once, as the end of an agent that never was, and clears the channel of what is too old", async () => {
  const rig = verbRig();
  const agent = rig.address();
  const { replies } = rig.keys.parent(agent);
  await rig.redis.xadd(replies, "1-1", "v", "1");
  const { summary, ...progress } = NOTHING_DONE;
  const about = { agent_id: "refused", name: "refused", message_id: "key-1", summary, progress };
  const refuse = () =>
    rig.store.refuse(agent, { request_key: "refused x", reply_id: `${agent.uid}.end`, ...about });
  expect(await refuse()).toEqual({ status: "refused" });
  expect(await refuse()).toEqual({ status: "same" });
  expect(await rig.redis.pttl(rig.keys.parent(rig.parent).request("refused x"))).toBeGreaterThan(0);
  const entries = await rig.replies.read(rig.parent, "0", 10);
  expect(entries.map(({ entry }) => entry)).toMatchObject([
    {
      kind: "ended",
      status: "failed",
      stop_reason: "refused",
      agent_status: "ended",
      message_ids: ["key-1"],
    },
  ]);
});

test("a sweeper ends an agent for missing tools only as long as it waits for them", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const missing = { ...MAX_AGE_END, stop_reason: "tools_missing" } as const;
  const before = await rig.everything();
  expect(await rig.store.settle(agent, missing)).toMatchObject({ status: "not_due" });
  expect(await rig.everything()).toEqual(before);
  await rig.redis.hset(rig.keys.agent(agent).record, "tools_since", 1);
  expect(await rig.store.settle(agent, missing)).toMatchObject({ status: "settled" });
});

test("a reply names the messages that only its last commit has read", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const last = { consume_to: 1, consume_last: agent.uid, consume_ids: [agent.uid] };
  const end = { ...handedBack(await rig.claim(agent)), entries: [["0", "{}"]] as const, ...last };
  expect(await rig.store.settle(agent, end)).toMatchObject({ status: "settled" });
  const [told] = await rig.replies.read(rig.parent, "0", 1);
  expect(told?.entry).toMatchObject({ message_ids: [agent.uid] });
  expect(told?.entry).not.toHaveProperty("undelivered");
});

test("a reply names the messages of all commits of its run, and what came with them has left Redis", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const epoch = await rig.claim(agent);
  const came = { attached: "{}", attached_to: "message:m-2" };
  await rig.store.send(agent, { ...sentOf("look at these", "m-2"), ...came });
  const files = () => rig.redis.hkeys(rig.keys.agent(agent).attachments);
  expect(await files()).toEqual(["message:m-2"]);
  await rig.readFirst(agent, epoch, { consume_ids: [agent.uid] });
  const taken = { consume_to: 2, consume_last: "m-2", consume_ids: ["m-2"] };
  const commit = { epoch, known: 1, running_ms: 1, entries: [["2", "{}"]] as const, ...taken };
  await rig.store.append(agent, { ...commit, consume_attached: ["message:m-2"] });
  expect(await files()).toEqual([]);
  await rig.store.settle(agent, handedBack(epoch));
  const [told] = await rig.replies.read(rig.parent, "0", 1);
  expect(told?.entry).toMatchObject({ message_ids: [agent.uid, "m-2"] });
});

test("a message whose id is no text is left out of the reply, which can be read", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await readAll(rig, agent, epoch);
  for (const payload of ['{"v":1,"message_id":5,"text":"x"}', '{"v":1,"message_id":null,"text":"x"}'])
    await rig.redis.rpush(rig.keys.agent(agent).inbox, payload);
  await rig.send(agent, "two", "m-2");
  expect(await rig.store.settle(agent, { ...handedBack(epoch), natural: false })).toMatchObject({
    status: "settled",
  });
  expect(await entriesOf(rig)).toMatchObject([{ kind: "reply", undelivered: ["m-2"] }]);
  expect(await rig.store.record(agent)).toMatchObject({ status: "ended" });
});
