/**
 * Guarantee: what one claim of a run knows, commits and gives up, against real Redis and under a hand clock: its lease ends
 * when the test says so.
 */
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { ZERO_USAGE } from "../../../src/shared/protocol/content.ts";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import { type AgentAddress, replyIdOf } from "../../../src/shared/protocol/keys.ts";
import { entryKey } from "../../../src/shared/protocol/log.ts";
import type { AgentStore } from "../../../src/shared/redis/agent-store.ts";
import { StopSignal } from "../../../src/shared/stop-signal.ts";
import {
  type NewEntry,
  newAnswer,
  newDelivery,
  newNotice,
  newResult,
  newStarted,
  readLog,
} from "../../../src/worker/loop/log.ts";
import type { RunRules } from "../../../src/worker/loop/rules.ts";
import { Observer } from "../../../src/worker/observe/observer.ts";
import { chargeUnbooked } from "../../../src/worker/run/cost.ts";
import { LeaseKeeper } from "../../../src/worker/run/lease.ts";
import { RunWorkspace } from "../../../src/worker/run/run-workspace.ts";
import { Session } from "../../../src/worker/run/session.ts";
import { INTERIM_TOOL } from "../../../src/worker/tools/builtin/parent.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { keysLike } from "../../helpers/redis.ts";
import { DESTROY, SPEC, verbRig, wellDone } from "../verbs/rig.ts";

const USAGE = {
  input_tokens: 1,
  output_tokens: 2,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
};
const RULES: RunRules = {
  limits: SPEC.limits,
  model: SPEC.model,
  idempotentTools: new Set(),
  canAsk: true,
};

const THEIR_MESSAGE = newDelivery(0, 1, [{ v: 1, message_id: "m", text: "look" }]);

/** Message `message` with this text, and with a call for each of `calls`. */
function answerOf(message: number, text: string, calls: readonly string[] = []) {
  const content = [
    { type: "text" as const, text },
    ...calls.map((name, i) => ({ type: "tool_use" as const, id: `c${i}`, name, input: {} })),
  ];
  const bought = { content, contentJson: JSON.stringify(content), stopReason: "end_turn" };
  return newAnswer(message, { ...bought, model: SPEC.model, usage: USAGE, costUsd: 0.5 }, 1);
}

/** The same with a call whose input is spelled as `json`. */
function deepAnswer(message: number, text: string, json: string): NewEntry {
  const contentJson = `[{"type":"text","text":"${text}"},{"type":"tool_use","id":"c0","name":"look","input":${json}}]`;
  const bought = { content: JSON.parse(contentJson), contentJson, stopReason: "tool_use" };
  return newAnswer(message, { ...bought, model: SPEC.model, usage: USAGE, costUsd: 0.5 }, 1);
}

/** A text whose edge is blank for JavaScript and not for Lua. */
const NOT_FOR_SCRIPTS = "the text\u00a0";

/** A queued agent, and the workers that claim it one after the other. */
async function scene(rules: Partial<RunRules> = {}) {
  const rig = verbRig();
  const agent = await rig.queued();
  const clock = handClock();
  const keeper = new LeaseKeeper({ store: rig.store, clock });
  const proofs = { count: 0 };
  /** The next claim's session; the lease of an earlier one is over. */
  const claim = async (more: Partial<AgentStore> = {}) => {
    const { record } = rig.keys.agent(agent);
    if (await rig.redis.hexists(record, "lease_until")) await rig.redis.hset(record, "lease_until", 1);
    const claimId = newRequestKey();
    const answer = await rig.store.claim(agent, { claim_id: claimId, worker: "w" });
    if (answer.status !== "claimed") throw new Error(answer.status);
    const { log, ...state } = await rig.store.claimed(agent, answer);
    const lease = keeper.hold({
      address: agent,
      epoch: answer.epoch,
      claimId,
      claimedAtMs: clock.monotonicMs(),
      earlierMs: 0,
    });
    const claimed = { ...state, entries: readLog(log), watched: false };
    return new Session({ ...rig.store, ...more }, lease, claimed, equipmentOf(agent, rules, proofs));
  };
  return { rig, agent, clock, keeper, claim, proofs };
}

function equipmentOf(
  { tenant, parentId, uid }: AgentAddress,
  rules: Partial<RunRules>,
  proofs: { count: number },
) {
  const slot = {
    mustHandBack: false,
    isolate: async () => false,
    endIsolation() {
      proofs.count += 1;
    },
    leave: () => {},
  };
  const names = { tenant, parentId, uid, agentId: "a", name: "a", run: 1, model: SPEC.model };
  return {
    rules: { ...RULES, ...rules },
    tools: new Map(),
    toolNames: [],
    models: [SPEC.model],
    requestHead: "",
    unpriced: undefined,
    isStreamed: false,
    outputFormat: "",
    pace: {},
    workspace: new RunWorkspace(
      {
        ...{ root: "/dev/null/no run of these tests has files", tenant, parentId, agentId: "a", uid },
        ...{ roots: [], expected: false, clock: systemClock },
      },
      new StopSignal(),
    ),
    slot,
    trace: undefined,
    observer: new Observer(createLogger({ level: "silent" })).observe(names),
  };
}

/** The session has read its message and got this answer. */
function take(session: Session, text: string, calls?: readonly string[]): void {
  const { unread } = session.state;
  session.add([newDelivery(0, 1, unread)], false);
  session.consume(
    1,
    unread.map(({ message_id }) => message_id),
  );
  session.add([answerOf(1, text, calls)]);
}

test("a commit that brings the run on clears its failures and proves its slot", async () => {
  const { claim, proofs } = await scene();
  const session = await claim();
  Object.assign(session, { attempts: 3, breaks: 2 });
  take(session, "first");
  expect([session.state.unread, session.isInboxStale]).toEqual([[], false]);
  expect(await session.commit()).toBe("committed");
  expect([session.attempts, session.breaks, session.hasAdvanced, proofs.count]).toEqual([0, 0, true, 1]);
});

test("what was paid for is unbooked until a commit has it, or another has taken its place", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  const unbooked = () => session.unbooked.map(({ entry }) => `${entry.kind} ${entry.message}`);
  take(session, "first", ["glob"]);
  expect(unbooked()).toEqual(["answer 1"]);
  await session.commit();
  expect(unbooked()).toEqual([]);
  session.add([newResult(1, "c0", "found"), answerOf(3, "mine")]);
  await rig.redis.hset(rig.keys.agent(agent).log, "3", answerOf(3, "theirs").json);
  expect(unbooked()).toEqual(["answer 3"]);
  expect(await session.commit()).toBe("adopted");
  expect(unbooked()).toEqual([]);
});

test("what a commit has taken to Redis is not charged beside it, though its answer never came", async () => {
  const { rig, claim } = await scene();
  const session = await claim({
    async append(at, input) {
      await rig.store.append(at, input);
      throw new Error("Connection is closed.");
    },
  });
  const charged = async (isLast: boolean) => {
    await chargeUnbooked({ store: rig.store, logger: createLogger({ level: "silent" }) }, session, isLast);
    return rig.redis.hkeys(rig.store.keys.parent(rig.parent).usage);
  };
  take(session, "first", ["glob"]);
  await expect(session.commit()).rejects.toThrow("Connection is closed.");
  expect(session.unbooked).toHaveLength(1);
  expect(await charged(false)).toEqual([]);
  // A run that is settled without that commit has it in no counter.
  expect(await charged(true)).not.toEqual([]);
});

test("all that the run paid and did not commit is charged, in one sum", async () => {
  const { rig, claim } = await scene();
  const session = await claim();
  session.addUnusedCall(1, { usage: { ...USAGE, input_tokens: 10 }, costUsd: 1 }, { isCutOff: false });
  take(session, "first", ["glob"]);
  await chargeUnbooked({ store: rig.store, logger: createLogger({ level: "silent" }) }, session, false);
  expect(await rig.store.usage(rig.parent, 0)).toMatchObject({ tokens: 12 + 3, cost_usd: 1.5 });
});

test("of what commits had booked that is charged once which Redis has forgotten, each try of a call by itself", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  take(session, "first", ["glob"]);
  await session.commit();
  const begun = session.purchase.idOf({ message: 3 });
  session.add([newResult(1, "c0", "found")]);
  await session.commit({ begun });
  session.addUnusedCall(3, { usage: { ...USAGE, input_tokens: 10 }, costUsd: 1 }, { isCutOff: false });
  await session.commit({ begun });
  session.add([answerOf(3, "second", ["glob"])]);
  await session.commit();
  const { log } = rig.keys.agent(agent);
  const tried = entryKey.purchase(3, session.lease.epoch, 0);
  await rig.redis.hdel(log, "3");
  const charged = async () => {
    await chargeUnbooked({ store: rig.store, logger: createLogger({ level: "silent" }) }, session, false);
    return rig.store.usage(rig.parent, 0);
  };
  expect(await charged()).toMatchObject({ tokens: 3, cost_usd: 0.5 });
  await rig.redis.hdel(log, tried);
  expect(await charged()).toMatchObject({ tokens: 3 + 12, cost_usd: 1.5 });
  expect(await charged()).toMatchObject({ tokens: 3 + 12, cost_usd: 1.5 });
  const mark = rig.keys.parent(rig.parent).charged;
  expect((await keysLike(rig.redis, `${mark("")}*`)).sort()).toEqual([
    mark(begun),
    mark(`${begun}/${tried}`),
  ]);
});

test("the answer of an end that did not come, for there was a message, is charged where Redis has forgotten it", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  take(session, "first");
  const commitment = session.prepareCommit(true);
  await rig.send(agent, "more");
  const answer = await rig.store.settle(agent, { ...wellDone(session.lease.epoch), ...commitment.input });
  if (answer.status !== "more") throw new Error(answer.status);
  await session.settled(commitment, answer);
  await rig.redis.hdel(rig.keys.agent(agent).log, "1");
  await chargeUnbooked({ store: rig.store, logger: createLogger({ level: "silent" }) }, session, false);
  expect(await rig.store.usage(rig.parent, 0)).toMatchObject({ tokens: 3, cost_usd: 0.5 });
});

test("once the lease is over nothing is written, and the tools are stopped", async () => {
  const { rig, agent, clock, claim } = await scene();
  const session = await claim();
  take(session, "first");
  clock.advance(rig.store.timing.leaseMs);
  expect(await session.commit()).toBe("lease_over");
  expect(await session.ask([{ question_id: "1/a", text: "a?" }], 1_000, [])).toBe("lease_over");
  expect(session.toolStop.isStopped).toBe(true);
  expect(await rig.redis.exists(rig.keys.agent(agent).log)).toBe(0);
  expect((await rig.raw(agent)).status).toBe("running");
});

test("a write that is refused because the agent has ended ends the lease as taken", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  take(session, "first");
  await rig.store.settle(agent, DESTROY);
  expect(await session.commit()).toBe("lease_over");
  expect([session.lease.endReason, session.toolStop.isStopped]).toEqual(["taken", true]);
});

test("the holder of a log of which Redis has forgotten a part hands it back", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  take(session, "first", ["glob"]);
  await session.commit();
  await rig.redis.del(rig.keys.agent(agent).log);
  session.add([newResult(1, "c0", "found")]);
  expect(await session.commit()).toBe("lease_over");
  expect(session.lease.endReason).toBe("expired");
});

test("what another has committed in the place of an answer stands, and the answer is paid for", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  take(session, "mine");
  const { log } = rig.keys.agent(agent);
  await rig.redis.hset(log, "0", THEIR_MESSAGE.json, "1", answerOf(1, "theirs").json);
  expect(await session.commit()).toBe("adopted");
  expect([session.body().summary, session.body().cost_usd]).toEqual(["theirs", 1]);
  expect(await rig.redis.hlen(log)).toBe(3);
});

test("a call in vain whose commit met another log stays paid for, once, counts as it did, and is told", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  const { unread } = session.state;
  session.add([newDelivery(0, 1, unread)], false);
  session.consume(1, [unread[0]?.message_id ?? ""]);
  session.addUnusedCall(1, { usage: USAGE, costUsd: 0.25 }, { isCutOff: false });
  session.addUnusedCall(1, { usage: USAGE, costUsd: 0.5 }, { isCutOff: true, compactBefore: 1 });
  session.tell({ type: "turn_finished", turn: 1, tokens: 6, cost_usd: 0.75 });
  const { log } = rig.keys.agent(agent);
  await rig.redis.hset(log, "0", THEIR_MESSAGE.json);
  expect(await session.commit()).toBe("adopted");
  expect(session.body()).toMatchObject({ cost_usd: 0.75, tokens: 6 });
  expect([session.state.paidCalls, session.unbooked]).toEqual([1, []]);
  const stored = Object.values(await rig.redis.hgetall(log)).map((json) => JSON.parse(json));
  expect(stored.filter(({ cost_usd }) => cost_usd === 0.25)).toHaveLength(1);
  expect(stored.filter(({ cost_usd }) => cost_usd === 0.5)).toMatchObject([{ cut_off: true, sums_up: 1 }]);
  const told = await rig.redis.lrange(rig.keys.agent(agent).timeline, 0, -1);
  expect(told.filter((line) => line.includes('["f",1,6,0.75]'))).toHaveLength(1);
});

test("a log is adopted only by the holder of its agent", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim({
    async load(address) {
      await rig.redis.hincrby(rig.keys.agent(address).record, "epoch", 1);
      return rig.store.load(address);
    },
  });
  take(session, "mine");
  const { log } = rig.keys.agent(agent);
  await rig.redis.hset(log, "0", THEIR_MESSAGE.json, "1", answerOf(1, "theirs").json);
  expect(await session.commit()).toBe("lease_over");
  expect(session.lease.endReason).toBe("taken");
});

test("a result is adopted only by the holder of its agent, also where nothing was paid for", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim({
    async load(address) {
      await rig.redis.hincrby(rig.keys.agent(address).record, "epoch", 1);
      return rig.store.load(address);
    },
  });
  take(session, "first", ["glob"]);
  expect(await session.commit()).toBe("committed");
  await rig.redis.hset(rig.keys.agent(agent).log, "1/c0/result", newResult(1, "c0", "theirs").json);
  session.add([newResult(1, "c0", "mine")]);
  expect(await session.commit()).toBe("lease_over");
  expect(session.lease.endReason).toBe("taken");
});

test("with what another has committed comes that the parent wants an end, also where nothing was paid for", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  take(session, "first", ["glob"]);
  await session.commit();
  await rig.redis.hset(rig.keys.agent(agent).log, "1/c0/result", newResult(1, "c0", "theirs").json);
  await rig.store.finish(agent);
  session.add([newResult(1, "c0", "mine")]);
  expect(await session.commit()).toBe("adopted");
  expect(session.state.finish).toBe(true);
});

test("a message that comes after what another has committed is read once", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  take(session, "first", ["glob"]);
  await session.commit();
  const { log, inbox } = rig.keys.agent(agent);
  await rig.redis.hset(log, "1/c0/result", newResult(1, "c0", "theirs").json);
  session.add([newResult(1, "c0", "mine")]);
  expect(await session.commit()).toBe("adopted");
  await rig.send(agent, "more", "m-2");
  await session.refreshInbox();
  const step = session.next();
  if (step.do !== "deliver") throw new Error(step.do);
  session.add([newDelivery(step.message, 1, step.messages)], false);
  session.consume(step.consumeTo, ["m-2"]);
  session.add([answerOf(3, "second")]);
  expect(await session.commit()).toBe("committed");
  expect(await rig.redis.llen(inbox)).toBe(0);
});

test("messages that one commit takes out of the inbox, one before an answer and one behind it, are all named by the reply", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  const deliver = () => {
    const step = session.next();
    if (step.do !== "deliver") throw new Error(step.do);
    session.add([newDelivery(step.message, 1, step.messages)], false);
    const ids = step.messages.map(({ message_id }) => message_id);
    session.consume(step.consumeTo, ids);
    return ids;
  };
  const first = deliver();
  session.add([answerOf(1, "first")]);
  await rig.send(agent, "more", "m-2");
  await session.refreshInbox();
  expect(deliver()).toEqual(["m-2"]);
  session.add([answerOf(3, "second")]);
  expect(await session.commit()).toBe("committed");
  expect(await rig.redis.llen(rig.keys.agent(agent).inbox)).toBe(0);
  const end = { ...wellDone(session.lease.epoch), ...session.prepareCommit(true).input };
  expect(await rig.store.settle(agent, end)).toMatchObject({ status: "settled" });
  const replies = await rig.replies.read(rig.parent, "0", 10);
  expect(replies).toMatchObject([{ entry: { message_ids: [...first, "m-2"] } }]);
});

test("each call that was paid for in vain is an entry of its own", async () => {
  const { claim } = await scene();
  const session = await claim();
  take(session, "first");
  for (let call = 0; call < 2; call++)
    session.addUnusedCall(2, { usage: USAGE, costUsd: 0.25 }, { isCutOff: false });
  expect(await session.commit()).toBe("committed");
  expect((await claim()).body().cost_usd).toBe(1);
});

test("an alert is told once, also after a change of workers", async () => {
  const { rig, agent, claim } = await scene({ alerts: { turns: 1 } });
  const alerts = async () =>
    (await rig.redis.lrange(rig.keys.agent(agent).timeline, 0, -1)).filter((line) =>
      line.includes('"alert"'),
    );
  const first = await claim();
  take(first, "first", ["glob"]);
  await first.commit();
  expect(await alerts()).toHaveLength(1);
  const second = await claim();
  second.add([newResult(1, "c0", "found"), answerOf(3, "second")]);
  expect(await second.commit()).toBe("committed");
  expect(await alerts()).toHaveLength(1);
});

test("an alert is not told again beside the next one", async () => {
  const { rig, agent, claim } = await scene({ alerts: { turns: 1, tool_calls: 2 } });
  const session = await claim();
  take(session, "first", ["glob"]);
  session.add([newStarted(1, "c0", "glob")]);
  await session.commit();
  session.add([newResult(1, "c0", "found"), answerOf(3, "second", ["glob"]), newStarted(3, "c0", "glob")]);
  await session.commit();
  const told = (await rig.redis.lrange(rig.keys.agent(agent).timeline, 0, -1)).join();
  expect(told.match(/"threshold"/g)).toHaveLength(2);
});

test("a text goes to Redis only when it has changed", async () => {
  const sent: (string | undefined)[] = [];
  const { rig, claim } = await scene();
  const session = await claim({
    append(address, input) {
      sent.push(input.summary);
      return rig.store.append(address, input);
    },
  });
  take(session, NOT_FOR_SCRIPTS);
  await session.commit();
  session.add([newNotice(2, "go on")]);
  await session.commit();
  expect(sent).toEqual([NOT_FOR_SCRIPTS.trim(), undefined]);
});

test("the text that a record has is not sent again by the next claim", async () => {
  const sent: object[] = [];
  const { rig, claim } = await scene();
  const first = await claim();
  take(first, NOT_FOR_SCRIPTS);
  await first.commit();
  const second = await claim({
    append(address, input) {
      const { summary, whole_text, forgets_summary } = input;
      sent.push({ summary, whole_text, forgets_summary });
      return rig.store.append(address, input);
    },
  });
  second.add([newNotice(2, "go on")]);
  await second.commit();
  expect(sent).toEqual([{}]);
});

test.for([
  ["a text", "the text", ["glob"]],
  ["a text among blanks", " \n the text\t", ["glob"]],
] as const)("%s that the log says is not told twice before the end", async ([, said, calls]) => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  take(session, said, calls);
  await session.commit();
  expect(await rig.raw(agent)).not.toHaveProperty("summary");
  expect((await rig.store.record(agent))?.progress).toMatchObject({ summary: "the text", turns: 1 });
  session.add([newResult(1, "c0", "found"), answerOf(3, "")]);
  await session.commit();
  expect((await rig.store.record(agent))?.progress).toMatchObject({ summary: "the text", turns: 2 });
  expect(session.prepareCommit(true).input).toMatchObject({ summary: "the text" });
});

test("a record has the text itself where a script would read another one, or none", async () => {
  const report = "x".repeat(500);
  const deep = `${'{"a":'.repeat(1_000)}1${"}".repeat(1_000)}`;
  const runs: readonly (readonly [NewEntry[], string])[] = [
    [[answerOf(1, NOT_FOR_SCRIPTS)], NOT_FOR_SCRIPTS.trim()],
    [[answerOf(1, "y".repeat(6_000))], expect.stringContaining("[… shortened from 6000 characters")],
    [
      [answerOf(1, report, ["glob"]), newResult(1, "c0", "found"), answerOf(3, "above")],
      expect.stringContaining(report),
    ],
    [[deepAnswer(1, "the text", deep)], "the text"],
    [[deepAnswer(1, "the text", `${"[".repeat(1_000)}${"]".repeat(1_000)}`)], "the text"],
  ];
  for (const [entries, summary] of runs) {
    const { rig, agent, claim } = await scene();
    const session = await claim();
    session.add([THEIR_MESSAGE, ...entries]);
    expect(await session.commit()).toBe("committed");
    expect((await rig.raw(agent)).summary).toEqual(summary);
  }
});

test("the answer of a turn announces the call behind its results, which say nothing of it", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  take(session, "first", ["glob", "glob"]);
  await session.commit({ results: 2 });
  const id = session.purchase.idOf({ message: 3 });
  const name = id.slice(agent.uid.length + 1);
  expect([(await rig.raw(agent)).begun, session.purchase.id]).toEqual([`${name}@4`, id]);
  session.add([newResult(1, "c0", "found")]);
  await session.commit();
  session.add([newResult(1, "c1", "found")]);
  await session.commit({ begun: id });
  expect((await rig.raw(agent)).begun).toBe(`${name}@4`);
});

test("where another step follows on the results, no purchase is announced any more; another one by its name", async () => {
  for (const [begun, stored] of [
    [undefined, ""],
    ["7-1.5", "7-1.5@3"],
  ] as const) {
    const { rig, agent, claim } = await scene();
    const session = await claim();
    take(session, "first", ["glob"]);
    await session.commit({ results: 1 });
    session.add([newResult(1, "c0", "found")]);
    await session.commit({ begun: begun && `${agent.uid}.${begun}` });
    expect((await rig.raw(agent)).begun).toBe(stored);
  }
});

test("behind results that another has committed a call that is tried again is announced anew", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  take(session, "first", ["glob"]);
  await session.commit({ results: 1 });
  await rig.redis.hset(rig.keys.agent(agent).log, "1/c0/result", newResult(1, "c0", "theirs").json);
  session.add([newResult(1, "c0", "mine")]);
  expect(await session.commit()).toBe("adopted");
  const id = session.purchase.idOf({ message: 3 });
  session.addUnusedCall(3, { usage: ZERO_USAGE, costUsd: 0 }, { isCutOff: false });
  await session.commit({ begun: id });
  const entries = await rig.redis.hlen(rig.keys.agent(agent).log);
  expect((await rig.raw(agent)).begun).toBe(`${id.slice(agent.uid.length + 1)}@${entries}`);
});

test("where a call of the turn stays open behind the results, no purchase is announced", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  take(session, "first", ["glob", "ask_parent"]);
  await session.commit({ results: 1 });
  session.add([newResult(1, "c0", "found")]);
  await session.commit();
  expect((await rig.raw(agent)).begun).toBe("");
});

test("interim messages of earlier claims count", async () => {
  const { claim } = await scene();
  const first = await claim();
  expect(first.takeInterim(INTERIM_TOOL, 2)).toBe(true);
  take(first, "first", [INTERIM_TOOL]);
  first.add([newResult(1, "c0", "sent")]);
  await first.commit();
  const second = await claim();
  expect([second.takeInterim(INTERIM_TOOL, 2), second.takeInterim(INTERIM_TOOL, 2)]).toEqual([true, false]);
});

test("once a question is put the lease is given up", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  take(session, "which?", ["ask_parent"]);
  await session.commit();
  expect(await session.ask([{ question_id: "1/c0", text: "which?" }], 60_000, [])).toBe("asked");
  expect([session.lease.endReason, (await rig.raw(agent)).status]).toEqual(["given_up", "waiting"]);
});

test("a finish that comes before the question makes the run report, and one that comes before a commit is heeded", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  take(session, "which?", ["ask_parent"]);
  await session.commit();
  await rig.store.finish(agent);
  expect(await session.ask([{ question_id: "1/c0", text: "which?" }], 60_000, [])).toBe("finishing");
  expect([session.state.finish, session.lease.isLive()]).toEqual([true, true]);
  const another = await claim();
  expect(another.state.finish).toBe(true);
});

test("a commit brings along that the parent wants an end", async () => {
  const { rig, agent, claim } = await scene();
  const session = await claim();
  await rig.store.finish(agent);
  expect(session.state.finish).toBe(false);
  take(session, "first");
  await session.commit();
  expect(session.state.finish).toBe(true);
});

test("two claims name the purchase of one message differently, and one claim always alike", async () => {
  const { claim } = await scene();
  const [first, second] = [await claim(), await claim()];
  expect(first.purchase.idOf({ message: 1 })).toBe(first.purchase.idOf({ message: 1 }));
  expect(first.purchase.idOf({ message: 1 })).not.toBe(second.purchase.idOf({ message: 1 }));
  expect(first.purchase.idOf({ message: 3, compactBefore: 1 })).not.toBe(first.purchase.idOf({ message: 3 }));
});

test("a long text is kept whole beside its cut, and goes when a short one takes its place", async () => {
  const { rig, agent, claim } = await scene();
  const key = rig.keys.parent(agent).text(replyIdOf(agent.uid, 1));
  const first = await claim();
  take(first, "x".repeat(300_000), ["glob"]);
  await first.commit();
  expect(await rig.redis.exists(key)).toBe(1);
  const second = await claim();
  second.add([newResult(1, "c0", "found"), answerOf(3, "short ".repeat(50))]);
  await second.commit();
  expect(await rig.redis.exists(key)).toBe(0);
});

/** The types of the events of each line in the agent's timeline. */
async function told({ rig, agent }: Awaited<ReturnType<typeof scene>>): Promise<string[][]> {
  const lines = await rig.redis.lrange(rig.keys.agent(agent).timeline, 0, -1);
  return lines.map((line) => Array.from(line.matchAll(/"type":"(\w+)"/g), ([, type = ""]) => type));
}

test("events of a commit whose start marks stand already are told with the next one", async () => {
  const ours = await scene();
  const before = await ours.claim();
  take(before, "first", ["glob"]);
  before.add([newStarted(1, "c0", "glob")]);
  await before.commit();
  const session = await ours.claim();
  session.tell({ type: "run_started", turn: 1, max_turns: 5, worker: "w" });
  session.add([newStarted(1, "c0", "glob")]);
  expect(await session.commit()).toBe("committed");
  // The claim told the first line.
  expect(await told(ours)).toEqual([["worker_lost"]]);
  session.add([newResult(1, "c0", "found")]);
  await session.commit();
  expect(await told(ours)).toEqual([["worker_lost"], ["run_started"]]);
});

test("events of an end that did not come, for there was a message, are told with the next commit, unless an entry told them", async () => {
  for (const hasEntry of [true, false]) {
    const ours = await scene();
    const session = await ours.claim();
    take(session, "first");
    if (!hasEntry) await session.commit();
    session.tell({ type: "run_started", turn: 1, max_turns: 5, worker: "w" });
    const commitment = session.prepareCommit(true);
    await ours.rig.send(ours.agent, "more");
    const end = { ...wellDone(session.lease.epoch), ...commitment.input };
    const answer = await ours.rig.store.settle(ours.agent, end);
    if (answer.status !== "more") throw new Error(answer.status);
    await session.settled(commitment, answer);
    session.add([newNotice(2, "go on")]);
    await session.commit();
    expect(await told(ours)).toEqual([["run_started"]]);
  }
});
