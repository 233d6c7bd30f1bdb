/** What an agent said stays readable until the ack or as its profile says, and a new agent goes on from it. */
import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { z } from "zod";
import type { Parent } from "../../../src/producer/parent.ts";
import type { Reply } from "../../../src/shared/protocol/reply.ts";
import { replay } from "../../../src/worker/loop/replay.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { startApi } from "../../helpers/api.ts";
import { latch } from "../../helpers/latch.ts";
import { refusal } from "../../helpers/parents.ts";
import { runHere } from "../../helpers/program.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
const look = {
  content: [
    { type: "text" as const, text: "Looking." },
    { type: "tool_use" as const, name: "glob", input: { pattern: "*" } },
  ],
};

/** Two answers with a tool call between them, then one for a parent that asks further. */
async function open(): Promise<Stage> {
  const stage = await openStage({ scenario: { turns: [look, say("found it"), say("went on")] } });
  await stage.startWorker();
  return stage;
}

/** The next end in the channel; acked, unless the test does that. */
async function nextReply(parent: Parent, acks = true): Promise<Reply> {
  for await (const entry of parent.replies()) {
    if (entry.kind !== "reply" && entry.kind !== "ended") continue;
    if (acks) await entry.ack();
    return entry;
  }
  throw new Error("the channel was closed");
}

/** The reply of this agent, whatever else is in the channel. */
async function endOf(parent: Parent, agentId: string): Promise<Reply> {
  for await (const entry of parent.replies())
    if (entry.kind === "reply" && entry.agent_id === agentId) return entry;
  throw new Error("the channel was closed");
}

async function runTo(parent: Parent, text: string, more: object = {}, acks = true): Promise<Reply> {
  const { agent_id } = await parent.spawn({ name: "worker", ...more });
  await parent.send(agent_id, text);
  return nextReply(parent, acks);
}

const CONVERSATION = [
  { kind: "told", message: 0, run: 1, text: "start" },
  { kind: "said", message: 1, stop_reason: "tool_use", content: [{ text: "Looking." }, { name: "glob" }] },
  { kind: "called", message: 1, name: "glob" },
  { kind: "returned", message: 1, is_error: false },
  { kind: "said", message: 3, stop_reason: "end_turn", content: [{ text: "found it" }] },
];

test("the whole conversation is readable until the ack of its end, and then is gone", async () => {
  const parent = (await open()).parent();
  const { agent_id } = await runTo(parent, "start", {}, false);
  const { entries } = await parent.transcript(agent_id);
  expect(entries).toMatchObject(CONVERSATION);
  expect(await nextReply(parent)).toMatchObject({ agent_id, turns: 2 });
  const gone = refusal("unknown_transcript", /the ack of its end/);
  await expect(parent.transcript(agent_id)).rejects.toMatchObject(gone);
  await expect(parent.resume(agent_id, "go on")).rejects.toMatchObject(gone);
  await expect(parent.transcript("never-was")).rejects.toMatchObject(refusal("unknown_agent"));
});

test("a profile keeps it longer, and its record as long; the loop decides again from it what it had decided", async () => {
  const stage = await open();
  const parent = stage.parent();
  const week = 7 * 24 * 3_600_000;
  await parent.register({ transcript_ms: week });
  const { agent_id } = await runTo(parent, "start");
  expect((await parent.transcript(agent_id)).entries).toMatchObject(CONVERSATION);
  const { store, redis } = stage;
  const address = { tenant: "default", parentId: "planner-7" };
  const uid = (await store.uidOf(address, agent_id)) ?? "";
  const kept = await store.record({ ...address, uid });
  const decisions = replay({
    run: 1,
    spec: kept?.spec ?? expect.unreachable(),
    log: await store.conversation({ ...address, uid }),
    ended: "end_turn",
  });
  expect(decisions.map(({ decided, agrees }) => [decided, agrees])).toEqual([
    ["deliver", true],
    ["call_model", true],
    ["run_tools", true],
    ["call_model", true],
    ["settle end_turn", true],
  ]);
  const { record, transcript, log } = store.keys.agent({ ...address, uid });
  for (const key of [record, transcript]) {
    const left = await redis.pttl(key);
    expect(left).toBeGreaterThan(week - 3_600_000);
    expect(left).toBeLessThanOrEqual(week);
  }
  expect(await redis.exists(log)).toBe(0);
});

test("a new agent goes on from the conversation: its run is numbered on, its counters begin with nothing", async () => {
  const stage = await open();
  const parent = stage.parent();
  const first = await runTo(parent, "start", {
    transcript_ms: 60_000,
    limits: { max_turns: 3 },
    tools: ["glob"],
  });
  expect(first).toMatchObject({ status: "succeeded", turns: 2, summary: "found it" });
  const resumed = await parent.resume(first.agent_id, "go on");
  expect(resumed).toMatchObject({
    agent_id: "worker_2",
    resumes: first.agent_id,
    run: 2,
    limits: { max_turns: 3 },
    in_force: { tools: ["glob"], transcript_ms: 60_000 },
  });
  const reply = await nextReply(parent, false);
  expect(reply).toMatchObject({
    agent_id: "worker_2",
    run: 2,
    status: "succeeded",
    turns: 1,
    summary: "went on",
    tools_called: {},
  });
  expect((await parent.transcript("worker_2")).entries).toMatchObject([
    ...CONVERSATION,
    { kind: "told", message: 4, run: 2, text: "go on" },
    { kind: "said", message: 5, content: [{ text: "went on" }] },
  ]);
});

test("a tool that was at work when its agent was destroyed is told to who goes on as interrupted, not as never made", async () => {
  const deploy = { type: "tool_use" as const, name: "deploy", input: {} };
  const stage = await openStage({ scenario: { turns: [{ content: [deploy] }, say("went on")] } });
  const { model, heads } = recordingModel(stage.offline.url);
  const begun = latch();
  const tool = defineTool({
    name: "deploy",
    description: "For tests.",
    input: z.object({}),
    run: (_input, { signal }) => {
      begun.open();
      return new Promise((resolve) => signal.addEventListener("abort", () => resolve(""), { once: true }));
    },
  });
  await stage.startWorker({ model, tools: [tool] });
  const parent = stage.parent();
  const { agent_id } = await parent.spawn({ name: "worker" });
  await parent.send(agent_id, "start");
  await begun.opened;
  await parent.destroy(agent_id);
  const resumed = await parent.resume(agent_id, "go on");
  expect((await endOf(parent, resumed.agent_id)).summary).toBe("went on");
  expect(heads.at(-1)?.messages).toContain(
    "Interrupted: the run ended during this call and its effect is unknown",
  );
});

test("nothing goes on from an agent that was destroyed in the middle of a run and acked: what it was allowed is no longer known", async () => {
  const stage = await openStage({ scenario: { turns: [look, { ...say("late"), latencyMs: 600_000 }] } });
  await stage.startWorker();
  const parent = stage.parent();
  const { agent_id } = await parent.spawn({ name: "worker", tools: ["glob"], system: "Read only." });
  await parent.send(agent_id, "start");
  await until(() => stage.offline.ledger.length === 1 && stage.offline.inFlight === 1);
  await parent.destroy(agent_id);
  expect((await parent.transcript(agent_id)).entries).not.toEqual([]);
  expect(await nextReply(parent)).toMatchObject({ agent_id, kind: "ended" });
  const address = { tenant: "default", parentId: "planner-7" };
  const uid = (await stage.store.uidOf(address, agent_id)) ?? "";
  // The worker that held the run may still ask whether what it bought was committed.
  expect(await stage.redis.exists(stage.keys.agent({ ...address, uid }).transcript)).toBe(1);
  const gone = refusal("unknown_transcript", /the ack of its end/);
  await expect(parent.resume(agent_id, "go on")).rejects.toMatchObject(gone);
  await expect(parent.transcript(agent_id)).rejects.toMatchObject(gone);
  expect(await stage.store.conversation({ ...address, uid })).toEqual(new Map());
});

test("an agent that ended before its first answer has no transcript, and the refusal does not speak of an ack alone", async () => {
  const parent = (await openStage()).parent();
  const { agent_id } = await parent.spawn({ name: "worker" });
  await parent.destroy(agent_id);
  const refused = refusal("unknown_transcript", /it ended before its first answer, or the ack of its end/);
  await expect(parent.resume(agent_id, "go on")).rejects.toMatchObject(refused);
  await expect(parent.transcript(agent_id)).rejects.toMatchObject(refused);
});

test("the same request key finds the resumed agent also after the ack of the old one's end", async () => {
  const parent = (await open()).parent();
  const { agent_id } = await runTo(parent, "start", {}, false);
  const first = await parent.resume(agent_id, "go on", { request_key: "once" });
  expect(await nextReply(parent)).toMatchObject({ agent_id });
  const again = await parent.resume(agent_id, "go on", { request_key: "once" });
  expect(again).toEqual({ ...first, known: true });
  expect(await nextReply(parent)).toMatchObject({ agent_id: first.agent_id });
  expect(await parent.resume(agent_id, "go on", { request_key: "once" })).toMatchObject({
    ...{ agent_id: first.agent_id, resumes: agent_id, run: first.run, known: true },
  });
  const gone = refusal("unknown_transcript", /the ack of its end/);
  const others = [
    { text: "go on", request_key: "another" },
    { text: "something else", request_key: "once" },
  ];
  for (const { text, ...key } of others)
    await expect(parent.resume(agent_id, text, key)).rejects.toMatchObject(gone);
});

test("the same request key resumes once, an agent that lives is sent to instead", async () => {
  const parent = (await open()).parent();
  const { agent_id } = await runTo(parent, "start", {}, false);
  const first = await parent.resume(agent_id, "go on", { request_key: "once" });
  expect(await parent.resume(agent_id, "go on", { request_key: "once" })).toEqual({ ...first, known: true });
  await expect(parent.resume(agent_id, "go on, please", { request_key: "once" })).rejects.toMatchObject(
    refusal("conflict"),
  );
  const { agent_id: live } = await parent.spawn({ name: "live" });
  expect((await parent.transcript(live)).entries).toEqual([]);
  await expect(parent.resume(live, "go on")).rejects.toMatchObject(refusal("conflict", /send it a message/));
});

test("what was narrowed since binds the resumed agent as well", async () => {
  const parent = (await open()).parent();
  const more = { tools: ["glob", "grep"], limits: { max_total_tokens: 90_000 } };
  const { agent_id } = await runTo(parent, "start", more, false);
  expect(await parent.resume(agent_id, "go on")).toMatchObject({ limits: { max_total_tokens: 90_000 } });
  await parent.register({
    tools: ["grep"],
    limits: { max_turns: 3, max_total_tokens: 50_000 },
    permissions: { deny: ["grep(secret*)"] },
  });
  const resumed = await parent.resume(agent_id, "go on");
  expect(resumed).toMatchObject({
    limits: { max_turns: 3, max_total_tokens: 50_000 },
    in_force: { tools: ["grep"], profile_version: 1, permissions: [{ deny: ["grep(secret*)"] }] },
  });
});

/** Runs whose every call counts 1,000 tokens, and never ends by itself. */
const endless = {
  turns: Array.from({ length: 20 }, (_, i) => ({
    ...look,
    content: [{ type: "tool_use" as const, name: "glob", input: { pattern: `${i}*` } }],
    usage: {
      input_tokens: 900,
      output_tokens: 100,
      cache_read_input_tokens: 0,
      cache_creation_input_tokens: 0,
    },
  })),
};

test("the budget that an agent has spent binds who goes on from it without one: over library, API and command line it buys nothing more", async () => {
  const stage = await openStage({ scenario: endless });
  await stage.startWorker();
  const bounded = stage.parent("planner-7", { budgets: { parent: { max_total_tokens: 4_000 } } });
  const old = await runTo(bounded, "start", {}, false);
  expect(old).toMatchObject({ stop_reason: "max_total_tokens" });
  const calls = stage.offline.ledger.length;
  // A client and a parent of their own: neither has a budget.
  const client = stage.client();
  const unbounded = stage.parent("planner-7", { client });
  const api = await startApi({ client });
  const env = { REDIS_URL: stage.url, SUBAGENT_PREFIX: stage.prefix, SUBAGENT_PARENT: undefined };
  const path = `/v1/parents/planner-7/agents/${old.agent_id}/resume`;
  const byLibrary = await unbounded.resume(old.agent_id, "go on");
  const { body: byApi } = await api.ask("POST", path, { body: { text: "go on" } });
  const args = ["continue", old.agent_id, "go on", "--parent", "planner-7"];
  const { stdout } = await runHere(args, { cwd: tmpdir(), env });
  const { agent_id: again } = await unbounded.resume(
    (await endOf(unbounded, byLibrary.agent_id)).agent_id,
    "go on",
  );
  for (const agentId of [byLibrary.agent_id, byApi.agent_id, stdout[0] ?? "", again])
    expect(await endOf(unbounded, agentId)).toMatchObject({ stop_reason: "max_total_tokens", tokens: 0 });
  expect(stage.offline.ledger.length).toBe(calls);
});

test("of the old agent's budgets and those in force now the tighter caps bind, and the tenant's of the operator who has one", async () => {
  const stage = await open();
  const tenant = { max_total_tokens: 50_000, window_ms: 60_000 };
  const before = stage.client({ budgets: { tenant, agent: { max_total_tokens: 9_000 } } });
  const old = stage.parent("planner-7", { client: before, budgets: { parent: { max_cost_usd: 5 } } });
  const { agent_id } = await runTo(old, "start", {}, false);
  const resumedBy = async (parent: Parent) => {
    const { agent_id: resumed } = await parent.resume(agent_id, "go on");
    const address = { tenant: "default", parentId: "planner-7" };
    const uid = (await stage.store.uidOf(address, resumed)) ?? "";
    return (await stage.store.record({ ...address, uid }))?.spec.budgets;
  };
  const agent = { max_total_tokens: 9_000 };
  expect(await resumedBy(stage.parent("planner-7", { client: stage.client() }))).toEqual({
    ...{ agent, tenant },
    parent: { max_cost_usd: 5 },
  });
  const now = { max_total_tokens: 70_000, window_ms: 30_000 };
  const narrower = stage.parent("planner-7", {
    client: stage.client({ budgets: { tenant: now } }),
    budgets: { agent: { max_total_tokens: 20_000 }, parent: { max_cost_usd: 2, max_total_tokens: 8_000 } },
  });
  expect(await resumedBy(narrower)).toEqual({
    ...{ agent, tenant: now },
    parent: { max_cost_usd: 2, max_total_tokens: 8_000 },
  });
});

test("the API shows a transcript, and resumes from it", async () => {
  const stage = await open();
  const api = await startApi({ client: stage.client() });
  const { agent_id } = await runTo(stage.parent(), "start", {}, false);
  const agents = "/v1/parents/planner-7/agents";
  const { status, body } = await api.ask("GET", `${agents}/${agent_id}/transcript`);
  expect([status, body]).toMatchObject([200, { agent_id, entries: CONVERSATION }]);
  const resumed = await api.ask("POST", `${agents}/${agent_id}/resume`, { body: { text: "go on" } });
  expect(resumed).toMatchObject({ status: 201, body: { resumes: agent_id, run: 2 } });
  expect(resumed.headers.get("location")).toBe(`${agents}/${resumed.body.agent_id}`);
  const paged: object[] = [];
  for (let next: number | undefined = -1; next !== undefined; ) {
    const page: { entries: object[]; next?: number } = (
      await api.ask("GET", `${agents}/${agent_id}/transcript?limit=1&after=${next}`)
    ).body;
    paged.push(...page.entries);
    next = page.next;
  }
  expect(paged).toEqual(body.entries);
  expect((await api.ask("GET", `${agents}/${agent_id}/transcript?limit=501`)).status).toBe(400);
  expect((await api.ask("GET", `${agents}/never-was/transcript`)).status).toBe(404);
});

test("a page of a conversation with long texts has a megabyte at most, and the pages together are all of it", async () => {
  const long = (n: number) => ({
    content: [
      ...say("x".repeat(150_000)).content,
      { type: "tool_use" as const, name: "glob", input: { pattern: `${n}*` } },
    ],
  });
  const turns = [...Array.from({ length: 12 }, (_, n) => long(n)), say("done")];
  const stage = await openStage({ scenario: { turns } });
  await stage.startWorker();
  const parent = stage.parent("planner-7", { transcript_ms: 3_600_000 });
  const { agent_id } = await runTo(parent, "start");
  const sizes: number[] = [];
  for (let after: number | undefined = -1; after !== undefined; ) {
    const { entries, next }: Awaited<ReturnType<Parent["transcript"]>> = await parent.transcript(agent_id, {
      after,
    });
    sizes.push(JSON.stringify(entries).length);
    after = next;
  }
  expect(sizes.length).toBeGreaterThan(1);
  expect(Math.max(...sizes)).toBeLessThan(1_000_000);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeGreaterThan(1_800_000);
});
