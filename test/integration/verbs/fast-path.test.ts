/** What lets a run live on two trips a turn: a spawn with its message, a claim with everything, a settle with the last answer. */
import { expect, test } from "vitest";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import type { AgentAddress } from "../../../src/shared/protocol/keys.ts";
import { RESERVATION_MS, TIMING } from "../../../src/shared/protocol/limits.ts";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import { createKeyTypes } from "../../../src/shared/redis/key-types.ts";
import { type KeyName, wordsOf } from "../../../src/shared/redis/verb.ts";
import { VERBS } from "../../../src/shared/redis/verbs.ts";
import {
  bodyOf,
  DESTROY,
  handedBack,
  messageOf,
  questionsOf,
  type Rig,
  SPEC,
  verbRig,
  wellDone,
} from "./rig.ts";

const spawnWith = (message: string | undefined, more: object = {}) => ({
  request_key: "k",
  digest: "d",
  stem: "a",
  name: "A",
  spec: JSON.stringify(SPEC),
  idle_ms: 60_000,
  ...(message !== undefined && { message }),
  ...more,
});
const entriesOf = async (rig: Rig) =>
  (await rig.replies.read(rig.parent, "0", 100)).map(({ entry }) => entry);
const used = (rig: Rig) => rig.store.usage(rig.parent, 0);

test("a spawn with its first message is queued for run 1 with wake 1, once, and its claim finds the message", async () => {
  const rig = verbRig();
  const agent = rig.address();
  const input = spawnWith(JSON.stringify(messageOf("go", "m-1")));
  expect(await rig.store.spawn(agent, input)).toMatchObject({ status: "spawned" });
  expect(await rig.raw(agent)).toMatchObject({ status: "queued", run: "1", wake: "1" });
  const before = await rig.everything();
  expect(await rig.store.spawn(agent, input)).toMatchObject({ status: "same", uid: agent.uid });
  expect(await rig.everything()).toEqual(before);
  expect(await rig.redis.pttl(rig.keys.agent(agent).life)).toBe(-1);
  const claimed = await rig.store.claim(agent, { claim_id: "c", worker: "w" });
  expect(claimed).toMatchObject({ status: "claimed", running_ms: 0, attempts: 0, watched: false });
  if (claimed.status !== "claimed") return;
  const { record, log, inbox } = await rig.store.claimed(agent, claimed);
  expect(record).toMatchObject({ status: "running", epoch: claimed.epoch, run: 1, spec: SPEC });
  expect([log.size, inbox]).toEqual([0, [messageOf("go", "m-1")]]);
});

test("a worker that lacks a tool the agent needs does not get it, and the agent is marked as waiting, once; one that has it does", async () => {
  const rig = verbRig();
  const agent = rig.address();
  const needs = { needs_tools: ["deploy", "bash"] };
  await rig.store.spawn(agent, spawnWith(JSON.stringify(messageOf("go")), needs));
  const claim = (offered_tools: string[]) =>
    rig.store.claim(agent, { claim_id: "c", worker: "w", offered_tools });
  expect(await claim([])).toEqual({ status: "missing_tools", tools: ["deploy", "bash"], wake: 1 });
  const waiting = await rig.raw(agent);
  expect(waiting).toMatchObject({
    status: "queued",
    epoch: "0",
    tools_since: expect.stringMatching(/^\d+$/),
  });
  const marked = await rig.everything();
  expect(await claim(["bash", "deployer"])).toEqual({ status: "missing_tools", tools: ["deploy"], wake: 1 });
  expect(await rig.everything()).toEqual(marked);
  expect(await claim(["bash", "deploy"])).toMatchObject({ status: "claimed" });
  // It does not wait for tools any more: a sweeper would end the run for it.
  expect(await rig.raw(agent)).not.toHaveProperty("tools_since");
});

test("a settle brings the last answer along; with an unread message the answer stands and the run goes on", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  await rig.send(agent, "one more thing", "m-2");
  const last = { ...wellDone(epoch), known: 1, running_ms: 9, entries: [["1", '"end"']] as const };
  const more = await rig.store.settle(agent, last);
  expect(more).toMatchObject({ status: "more", inbox: 1 });
  const kept = await rig.everything();
  expect(await rig.store.settle(agent, last)).toEqual(more);
  expect(await rig.everything()).toEqual(kept);
  expect((await rig.store.load(agent))?.log.get("1")).toBe('"end"');
  expect(await rig.raw(agent)).toMatchObject({ status: "running", committed: "1", summary: "done" });
  const final = {
    ...last,
    known: 2,
    entries: [["2", "{}"]] as const,
    consume_to: 2,
    consume_last: "m-2",
  };
  expect(await rig.store.settle(agent, { ...final, consume_last: "m-9" })).toMatchObject({ status: "stale" });
  expect(await rig.store.settle(agent, { ...final, entries: [["1", "other"]] })).toMatchObject({
    status: "conflict",
  });
  expect(await rig.store.settle(agent, final)).toMatchObject({ status: "settled", agent_status: "ended" });
  expect(await entriesOf(rig)).toMatchObject([{ summary: "done", status: "succeeded" }]);
  expect(await entriesOf(rig)).not.toHaveProperty("0.undelivered");
});

test.for(["more", "asked", "appended"] as const)(
  "a run that comes further with `%s` has no break held against it: the next claim counts none",
  async (how) => {
    const rig = verbRig();
    const { agent, epoch } = await rig.running();
    await rig.readFirst(agent, epoch);
    const broken = { epoch, delay_ms: 0, running_ms: 9, attempts: 3, breaks: 2 };
    expect(await rig.store.release(agent, broken)).toMatchObject({ status: "released" });
    const claim = () => rig.store.claim(agent, { claim_id: newRequestKey(), worker: "w" });
    const held = await claim();
    expect(held).toMatchObject({ status: "claimed", run: 1, attempts: 3, breaks: 2 });
    if (held.status !== "claimed") return;
    const end = { ...wellDone(held.epoch), known: 1, running_ms: 9, entries: [["1", '"end"']] as const };
    if (how === "more") await rig.send(agent, "one more thing", "m-2");
    const answer =
      how === "more"
        ? await rig.store.settle(agent, end)
        : how === "asked"
          ? await rig.store.ask(agent, { ...questionsOf(held.epoch), known: 1 })
          : await rig.store.append(agent, { ...end, epoch: held.epoch, advances: true });
    expect(answer).toMatchObject({ status: how });
    expect(await rig.raw(agent)).toMatchObject({ committed: "1", attempts: "0", breaks: "0" });
  },
);

/**
 * What a settle by its worker or its parent does about a foreign value at each of its keys. `fails`: it writes nothing, and settles
 * once when the value is gone. `settles`: it never reads what the key holds, or does without it.
 */
const FOREIGN: Readonly<Record<(typeof VERBS.settle.keys)[number], "fails" | "settles">> = {
  record: "fails",
  log: "fails",
  inbox: "fails",
  attachments: "fails",
  replies: "fails",
  timeline: "fails",
  history: "fails",
  live: "fails",
  // It only asks whether they are there.
  webhook: "settles",
  watching: "settles",
  // It only says how long they stay, or writes them anew.
  run_text: "settles",
  life: "settles",
  registry: "settles",
  transcript: "settles",
  // A run that cannot be counted ends all the same.
  usage: "settles",
  // Only a sweeper's settle reads it: the next test.
  parent_lease: "settles",
};

/** The key that a verb of an agent knows under this name; `run`: the one that the verb is told. */
function keyOf({ keys }: Rig, agent: AgentAddress, name: KeyName, run?: number): string {
  const [key = ""] = wordsOf({ keys: [name], context: [] }, { keys, timing: TIMING }, agent, { run });
  return key;
}

/** Puts a value of another type in the place of a key; the answer puts back what was there. */
async function mistype({ redis, prefix, keys }: Rig, key: string): Promise<() => Promise<void>> {
  const aside = `${key}-aside`;
  if ((await redis.exists(key)) === 1) await redis.rename(key, aside);
  if (createKeyTypes(prefix, keys)(key) === "string") await redis.rpush(key, "foreign");
  else await redis.set(key, "foreign");
  return async () => {
    await redis.del(key);
    if ((await redis.exists(aside)) === 1) await redis.rename(aside, key);
  };
}

test.for(VERBS.settle.keys)(
  "a settle that meets a foreign value at %s writes nothing and settles once when it is gone, or settles all the same",
  async (name) => {
    for (const how of ["its worker", "its parent"]) {
      const rig = verbRig();
      const { agent, epoch } = await rig.running();
      await rig.readFirst(agent, epoch);
      const end = how === "its worker" ? wellDone(epoch) : DESTROY;
      const putBack = await mistype(rig, keyOf(rig, agent, name, end.run));
      if (FOREIGN[name] === "fails") {
        const before = await rig.everything();
        await expect(rig.store.settle(agent, end), how).rejects.toThrow("WRONGTYPE");
        expect(await rig.everything()).toEqual(before);
        await putBack();
      }
      expect(await rig.store.settle(agent, end), how).toMatchObject({
        status: "settled",
        agent_status: "ended",
      });
      expect(await rig.raw(agent)).toMatchObject({ status: "ended" });
      expect(await entriesOf(rig)).toHaveLength(1);
      if (name !== "usage") expect((await used(rig)).replies).toBe(1);
    }
  },
);

test("a sweeper's settle that meets a foreign lease of the parent writes nothing, and finds the parent there when it is gone", async () => {
  const rig = verbRig();
  const agent = rig.address();
  const follows = { on_parent_gone: "destroy" } as const;
  await rig.store.spawn(agent, spawnWith(JSON.stringify(messageOf("go")), follows));
  const putBack = await mistype(rig, keyOf(rig, agent, "parent_lease"));
  const before = await rig.everything();
  const gone = { ...DESTROY, authority: "sweeper", stop_reason: "parent_gone" } as const;
  await expect(rig.store.settle(agent, gone)).rejects.toThrow("WRONGTYPE");
  expect(await rig.everything()).toEqual(before);
  await putBack();
  expect(await rig.store.settle(agent, gone)).toMatchObject({ status: "not_due" });
});

test.for(["append", "settle"] as const)(
  "a commit by %s that cannot take away what came with a message consumes none, and does when it can",
  async (verb) => {
    const rig = verbRig();
    const { agent, epoch } = await rig.running();
    await rig.readFirst(agent, epoch);
    for (const id of ["m-2", "m-3"]) await rig.send(agent, `also ${id}`, id);
    const taken = {
      consume_to: 2,
      consume_last: "m-2",
      consume_ids: ["m-2"],
      consume_attached: ["message:m-2"],
    };
    const commit = { epoch, known: 1, running_ms: 9, entries: [["1", '"end"']] as const, ...taken };
    const perform = () =>
      verb === "append"
        ? rig.store.append(agent, { ...commit, events: "{}" })
        : rig.store.settle(agent, { ...wellDone(epoch), ...commit, events: "{}" });
    const putBack = await mistype(rig, keyOf(rig, agent, "attachments"));
    const before = await rig.everything();
    await expect(perform()).rejects.toThrow("WRONGTYPE");
    expect(await rig.everything()).toEqual(before);
    await putBack();
    expect(await perform()).toMatchObject({ status: verb === "append" ? "appended" : "more", inbox: 1 });
    expect(await rig.raw(agent)).toMatchObject({ status: "running", inbox_read: "2" });
  },
);

/** The verbs of a holder, each with a line of events, and the claim, which trims the earlier ones. */
const WITH_EVENTS = {
  claim: async (rig: Rig) => {
    const agent = await rig.queued();
    return [agent, () => rig.store.claim(agent, { claim_id: "c", worker: "w" })] as const;
  },
  append: async (rig: Rig) => {
    const { agent, epoch } = await rig.running();
    await rig.readFirst(agent, epoch);
    const input = { epoch, known: 1, running_ms: 9, entries: [["1", '"end"']] as const, events: "{}" };
    return [agent, () => rig.store.append(agent, input)] as const;
  },
  ask: async (rig: Rig) => {
    const { agent, epoch } = await rig.running();
    await rig.readFirst(agent, epoch);
    return [agent, () => rig.store.ask(agent, { ...questionsOf(epoch), known: 1, events: "{}" })] as const;
  },
  release: async (rig: Rig) => {
    const { agent, epoch } = await rig.running();
    const input = { epoch, delay_ms: 0, running_ms: 9, attempts: 0, breaks: 0, events: "{}" };
    return [agent, () => rig.store.release(agent, input)] as const;
  },
};

test.for(["claim", "append", "ask", "release"] as const)(
  "a foreign value at the timeline or the history keeps `%s` from half of what it does",
  async (verb) => {
    for (const name of ["timeline", "history"] as const) {
      const rig = verbRig();
      const [agent, perform] = await WITH_EVENTS[verb](rig);
      const key = name === "timeline" ? rig.keys.agent(agent).timeline : rig.keys.parent(rig.parent).history;
      await rig.redis.del(key);
      await rig.redis.set(key, "foreign");
      const [log, before] = [rig.keys.agent(agent).log, await rig.raw(agent)];
      const entries = await rig.redis.hgetall(log);
      const told = name === "timeline" ? await rig.redis.xlen(rig.keys.parent(rig.parent).history) : 0;
      await expect(perform()).rejects.toThrow("WRONGTYPE");
      expect(await rig.raw(agent)).toEqual(before);
      expect(await rig.redis.hgetall(log)).toEqual(entries);
      expect(await entriesOf(rig)).toEqual([]);
      if (name === "timeline") expect(await rig.redis.xlen(rig.keys.parent(rig.parent).history)).toBe(told);
      await rig.redis.del(key);
      expect(["claimed", "appended", "asked", "released"]).toContain((await perform()).status);
    }
  },
);

test.for(["append", "ask"] as const)(
  "a foreign value at the parent's channel keeps `%s`, which tells the parent something, from half of what it does",
  async (verb) => {
    const rig = verbRig();
    const { agent, epoch } = await rig.running();
    await rig.readFirst(agent, epoch);
    const message = { interim_id: "i-1", interim: "so far" };
    const entries = [["1", '"end"']] as const;
    const perform = () =>
      verb === "ask"
        ? rig.store.ask(agent, { ...questionsOf(epoch), known: 1, events: "{}" })
        : rig.store.append(agent, { epoch, known: 1, running_ms: 9, entries, events: "{}", ...message });
    const putBack = await mistype(rig, keyOf(rig, agent, "replies"));
    const before = await rig.everything();
    await expect(perform()).rejects.toThrow("WRONGTYPE");
    expect(await rig.everything()).toEqual(before);
    await putBack();
    expect((await perform()).status).toBe(verb === "ask" ? "asked" : "appended");
    expect(await entriesOf(rig)).toHaveLength(1);
  },
);

test("a garbled counter or a foreign value in place of all counters keeps no run from its end", async () => {
  const rig = verbRig();
  const { usage } = rig.keys.parent(rig.parent);
  const first = await rig.running();
  await rig.store.settle(first.agent, handedBack(first.epoch));
  const [field = ""] = (await rig.redis.hkeys(usage)).filter((each) => each.endsWith("/turns"));
  await rig.redis.hset(usage, field, "garbled");
  const second = await rig.running();
  expect(await rig.store.settle(second.agent, handedBack(second.epoch))).toMatchObject({ status: "settled" });
  expect(await used(rig)).toMatchObject({ replies: 2, turns: 1 });
  await rig.redis.set(usage, "foreign");
  const third = await rig.running();
  expect(await rig.store.settle(third.agent, handedBack(third.epoch))).toMatchObject({ status: "settled" });
});

test("a message whose JSON another producer spelled in another way is consumed like any other", async () => {
  const rig = verbRig();
  const spellings = [
    '{"v": 1, "message_id": "m-1", "text": "x"}',
    '{ "text": "\\"message_id\\": \\"no\\"", "message_id" : "m-1" ,"v":1}',
    '{"v":1,"text":"half \\ud83d","message_id": "m-1"}',
    '{"v":1,"message_id":"\\u006d-1","text":"x"}',
  ];
  for (const payload of spellings) {
    const agent = await rig.spawn();
    await rig.store.send(agent, { message_id: "m-1", payload, digest: "d" });
    const epoch = await rig.claim(agent);
    const taken = { epoch, known: 0, running_ms: 1, entries: [["0", "{}"]] as const, consume_to: 1 };
    expect(await rig.store.append(agent, { ...taken, consume_last: "no" })).toMatchObject({
      status: "stale",
    });
    const answer = await rig.store.append(agent, { ...taken, consume_last: "m-1" });
    expect(answer, payload).toMatchObject({ status: "appended", inbox: 0 });
    await rig.store.settle(agent, DESTROY);
  }
});

test("a purchase that could not be committed is charged once, also for an agent that has ended", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.store.settle(agent, handedBack(epoch));
  const before = await used(rig);
  const { usage } = partsOf(bodyOf("")).progress;
  const charge = (purchase_id: string) =>
    rig.store.charge(agent, { purchase_id, bought: { usage, cost_usd: 0.5 } });
  expect(await charge("p-1")).toEqual({ status: "charged" });
  expect(await charge("p-1")).toEqual({ status: "same" });
  expect(await charge("p-11")).toEqual({ status: "charged" });
  expect(await used(rig)).toMatchObject({
    tokens: before.tokens + 6,
    cost_usd: 1,
    replies: 1,
    turns: before.turns,
  });
  const { charged } = rig.keys.parent(rig.parent);
  for (const id of ["p-1", "p-11"])
    expect(await rig.redis.pttl(charged(id))).toBeGreaterThan(RESERVATION_MS - 60_000);
  expect(await rig.redis.pttl(rig.keys.agent(agent).record)).toBeGreaterThan(0);
  const nobody = rig.store.charge(rig.address(), { purchase_id: "p", bought: { usage, cost_usd: 1 } });
  expect(await nobody).toEqual({ status: "unknown" });
});

test("an answer that was committed by a commit whose answer was lost is not charged beside it, also once the agent has ended", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  const json = '{"v":1,"said":"hello"}';
  await rig.store.append(agent, { epoch, known: 1, running_ms: 1, entries: [["1", json]] });
  const { usage } = partsOf(bodyOf("")).progress;
  const bought = { usage, cost_usd: 0.5 };
  const charge = (purchase_id: string, entry: string) =>
    rig.store.charge(agent, { purchase_id, bought, entry_key: "1", entry });
  expect(await charge("p-1", json)).toEqual({ status: "committed" });
  await rig.store.settle(agent, DESTROY);
  expect(await charge("p-1", json)).toEqual({ status: "committed" });
  expect(await charge("p-2", '{"v":1,"said":"what another worker was told"}')).toEqual({ status: "charged" });
  expect(await charge("p-3", "")).toEqual({ status: "charged" });
});

test("an answer whose commit was not answered is not charged after the ack of its destroyed run; the transcript goes a minute later", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  const json = '{"v":1,"said":"hello"}';
  await rig.store.append(agent, { epoch, known: 1, running_ms: 1, entries: [["1", json]] });
  await rig.store.settle(agent, DESTROY);
  for (const entry of await rig.replies.read(rig.parent, "0", 1))
    expect(await rig.replies.ack(rig.parent, entry, "reader")).toBe(true);
  const { usage } = partsOf(bodyOf("")).progress;
  const charge = { purchase_id: "p-1", bought: { usage, cost_usd: 0.5 }, entry_key: "1", entry: json };
  expect(await rig.store.charge(agent, charge)).toEqual({ status: "committed" });
  const leftMs = await rig.redis.pttl(rig.keys.agent(agent).transcript);
  expect(leftMs).toBeGreaterThan(0);
  expect(leftMs).toBeLessThanOrEqual(60_000);
});

test("the transcript of a destroyed run stays no longer than its record after the ack", async () => {
  const rig = verbRig({ timing: { keptAfterAckMs: 5_000 } });
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  await rig.store.settle(agent, DESTROY);
  for (const entry of await rig.replies.read(rig.parent, "0", 1))
    await rig.replies.ack(rig.parent, entry, "reader");
  const leftMs = await rig.redis.pttl(rig.keys.agent(agent).transcript);
  expect(leftMs).toBeGreaterThan(0);
  expect(leftMs).toBeLessThanOrEqual(5_000);
});

test("an answer that Redis has forgotten is charged, also once the agent has ended; not where its transcript was given up", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  const head = '{"v":1,"usage":[1,2],"content":';
  const append = (key: string, json: string) =>
    rig.store.append(agent, { epoch, known: 1, running_ms: 1, entries: [[key, json]] });
  await append("1", `${head}"hello"}`);
  await append("3", '{"v":1,"usage":[3,4],"content":"of another worker"}');
  const { usage } = partsOf(bodyOf("")).progress;
  const charge = async (id: string, entry_key: string) => {
    const bought = { usage, cost_usd: 0.5 };
    return (await rig.store.charge(agent, { purchase_id: `${id}.${entry_key}`, bought, entry_key, head }))
      .status;
  };
  const all = async (id: string) => [await charge(id, "1"), await charge(id, "3"), await charge(id, "5")];
  expect(await all("running")).toEqual(["committed", "charged", "charged"]);
  expect(await all("running")).toEqual(["committed", "same", "same"]);
  await rig.store.settle(agent, DESTROY);
  expect(await all("ended")).toEqual(["committed", "charged", "charged"]);
  for (const entry of await rig.replies.read(rig.parent, "0", 1))
    await rig.replies.ack(rig.parent, entry, "reader");
  expect(await all("acked")).toEqual(["committed", "charged", "charged"]);
  // As if the minute were over that Redis keeps it.
  await rig.redis.del(rig.keys.agent(agent).transcript);
  expect(await all("gone")).toEqual(["unknown", "unknown", "unknown"]);
});

test("the purchase that has begun is known before its answer, and forgotten with it", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const claimed = await rig.store.claim(agent, { claim_id: "c", worker: "w" });
  const epoch = claimed.status === "claimed" ? claimed.epoch : 0;
  expect((await rig.store.record(agent))?.begun).toBe("c");
  await rig.readFirst(agent, epoch, partsOf(bodyOf("x")));
  expect((await rig.store.record(agent))?.begun).toBe("");
  const results = { epoch, known: 1, running_ms: 2, entries: [["1/t/result", "{}"]] as const, begun: "p-2" };
  await rig.store.append(agent, results);
  expect((await rig.store.record(agent))?.begun).toBe("p-2");
});
