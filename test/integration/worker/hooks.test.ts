/** Hooks of the worker around tool calls and runs: they block, change, add, and fail closed. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import type { Scenario } from "../../../src/offline/server.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { SPAWN_LIMITS } from "../../../src/shared/protocol/limits.ts";
import type { PermissionRules } from "../../../src/shared/protocol/permissions.ts";
import { keepSecret } from "../../../src/shared/secrets.ts";
import { StopSignal } from "../../../src/shared/stop-signal.ts";
import { type Hook, hooksOf } from "../../../src/worker/hooks/hooks.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { latch } from "../../helpers/latch.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { openStage } from "../../stage/stage.ts";

const WRITES: Scenario = {
  match: { user: "work" },
  turns: [
    {
      content: [
        { type: "tool_use", id: "toolu_1", name: "write_file", input: { file_path: "a.txt", content: "A" } },
      ],
    },
    { content: [{ type: "text", text: "Done." }] },
  ],
};

async function runWith(
  hooks: readonly Hook[],
  spec: { hooks?: string[]; permissions?: { deny: string[] } } = {},
  scenario = WRITES,
) {
  const stage = await openStage({ scenario });
  const { model, heads } = recordingModel(stage.offline.url);
  let calls = 0;
  const count = defineTool({
    name: "count",
    description: "Counts.",
    input: z.object({}),
    run: async () => ++calls,
  });
  await stage.startWorker({ model, hooks, tools: [count] });
  const parent = stage.parent("planner-7", { model: "offline-1", ...spec });
  const reply = await parent.task("work");
  const file = (name: string) =>
    readFile(join(stage.workspaceRoot, "default/planner-7/agents/task/workspace", name), "utf8").catch(
      () => undefined,
    );
  return { reply, file, messages: heads.at(-1)?.messages ?? "", calls: () => calls, heads };
}

test("a hook before a call sees it, changes its input, and adds a word", async () => {
  const seen: unknown[] = [];
  const hook: Hook = {
    name: "redirect",
    preToolUse({ agent, tool, input }) {
      seen.push([agent.agentId, tool, input]);
      return { input: { file_path: "b.txt", content: "B" }, context: "written elsewhere" };
    },
  };
  const { file, messages } = await runWith([hook]);
  expect(seen).toEqual([["task", "write_file", { file_path: "a.txt", content: "A" }]]);
  expect([await file("a.txt"), await file("b.txt")]).toEqual([undefined, "B"]);
  expect(messages).toContain("[redirect: written elsewhere]");
});

test("what a hook changed passes the permission rules again, and the tool's own check", async () => {
  const to = (input: Record<string, unknown>): Hook => ({ name: "change", preToolUse: () => ({ input }) });
  const denied = await runWith([to({ file_path: "b.txt", content: "B" })], {
    permissions: { deny: ["write_file(b.txt)"] },
  });
  expect(denied.messages).toContain("Not permitted as a hook changed it (deny write_file(b.txt))");
  expect(await denied.file("b.txt")).toBeUndefined();
  const invalid = await runWith([to({ file_path: 7 })]);
  expect(invalid.messages).toContain("Invalid input for write_file");
});

test("an input that a hook changes in place changes nothing, for the tool, the hooks after it and the conversation", async () => {
  const seen: unknown[] = [];
  const meddler: Hook = {
    name: "meddler",
    preToolUse({ input }) {
      Object.assign(Object(input), { file_path: "b.txt" });
      return undefined;
    },
    postToolUse({ input }) {
      Object.assign(Object(input), { file_path: "c.txt" });
      return undefined;
    },
  };
  const witness: Hook = {
    name: "witness",
    preToolUse: ({ input }) => void seen.push(input),
    postToolUse: ({ input }) => void seen.push(input),
  };
  const { file, messages } = await runWith([meddler, witness], {
    permissions: { deny: ["write_file(b.txt)"] },
  });
  expect([await file("a.txt"), await file("b.txt")]).toEqual(["A", undefined]);
  const asked = { file_path: "a.txt", content: "A" };
  expect(seen).toEqual([asked, asked]);
  expect(messages).not.toMatch(/[bc]\.txt/);
});

test("an input that a hook answers as it was is not judged again: the parent has been asked about it", async () => {
  const agent = { tenant: "default", parentId: "p", agentId: "a", uid: "sa-0", name: "A", run: 1 };
  const same: Hook = { name: "same", preToolUse: ({ input }) => ({ input: { ...Object(input) } }) };
  const permissions = [{ allow: [], ask: ["write_file"], deny: [] }];
  const hooks = hooksOf([same], { agent, named: [], permissions, clock: systemClock });
  const input = { file_path: "a.txt", content: "A" };
  const outcome = await hooks?.around(
    { id: "1", name: "write_file", input },
    async (given) => {
      return { content: JSON.stringify(given), isError: false, durationMs: 0 };
    },
    new StopSignal(),
  );
  expect(outcome).toMatchObject({ isError: false, content: JSON.stringify(input) });
});

test.for<[string, Hook, RegExp]>([
  [
    "that blocks",
    { name: "guard", preToolUse: () => ({ block: "not on Fridays" }) },
    /Blocked by guard: not on Fridays/,
  ],
  [
    "that throws",
    {
      name: "guard",
      preToolUse() {
        throw new TypeError("broken");
      },
    },
    /Blocked by guard: it failed: broken/,
  ],
  [
    "that never answers",
    { name: "guard", timeoutMs: 50, preToolUse: () => new Promise(() => {}) },
    /did not answer within 50 ms/,
  ],
])("a hook %s keeps the call from happening", async ([, hook, why]) => {
  const { file, messages, reply } = await runWith([hook]);
  expect(messages).toMatch(why);
  expect(await file("a.txt")).toBeUndefined();
  expect(reply.status).toBe("succeeded");
  expect(reply.tools_called).toEqual({});
});

test("a hook that the agent names and the worker lacks keeps every call and every run from beginning", async () => {
  const agent = { tenant: "default", parentId: "p", agentId: "a", uid: "sa-0", name: "A", run: 1 };
  const hooks = hooksOf([], { agent, named: ["audit"], permissions: [], clock: systemClock });
  let performed = 0;
  const outcome = await hooks?.around(
    { id: "1", name: "bash", input: {} },
    async () => {
      performed += 1;
      return { content: "", isError: false, durationMs: 0 };
    },
    new StopSignal(),
  );
  expect(outcome).toMatchObject({ isError: true, content: expect.stringContaining("lacks the hook audit") });
  expect(await hooks?.start([], new StopSignal())).toEqual({
    block: expect.stringContaining("lacks the hook audit"),
  });
  expect(performed).toBe(0);
});

test("hooks are asked in the order in which the worker has them, the first that blocks is the last", async () => {
  const agent = { tenant: "default", parentId: "p", agentId: "a", uid: "sa-0", name: "A", run: 1 };
  const asked: string[] = [];
  const hook = (name: string, block?: string): Hook => ({
    name,
    preToolUse() {
      asked.push(name);
      return block === undefined ? {} : { block };
    },
  });
  const all = [hook("one"), hook("two", "no"), hook("three")];
  const hooks = hooksOf(all, { agent, named: [], permissions: [], clock: systemClock });
  const outcome = await hooks?.around(
    { id: "1", name: "bash", input: {} },
    () => {
      throw new Error("performed");
    },
    new StopSignal(),
  );
  expect(outcome).toMatchObject({ isDenied: true, content: expect.stringContaining("Blocked by two: no") });
  expect(asked).toEqual(["one", "two"]);
});

test("a hook that is not for every agent holds for those that name it", async () => {
  const guard: Hook = { name: "guard", everyAgent: false, preToolUse: () => ({ block: "no" }) };
  expect(await (await runWith([guard])).file("a.txt")).toBe("A");
  expect(await (await runWith([guard], { hooks: ["guard"] })).file("a.txt")).toBeUndefined();
});

test("a hook after a call reads and replaces its result, or withholds it", async () => {
  const replaced = await runWith([
    {
      name: "redact",
      postToolUse: ({ content, isError }) => ({ content: `${isError} ${content.length > 0}` }),
    },
  ]);
  expect(replaced.messages).toContain('"content":"false true"');
  const withheld = await runWith([{ name: "redact", postToolUse: () => ({ block: "a secret" }) }]);
  expect(withheld.messages).toContain(
    "Blocked by redact: a secret The call has been made; its result is withheld.",
  );
  expect(withheld.messages).toContain('"is_error":true');
  expect(await withheld.file("a.txt")).toBe("A");
});

test("a secret of the worker in what a hook makes of a result reaches no model", async () => {
  const key = "sk-test-a1b2c3d4e5f6g7h8";
  keepSecret(key);
  const { messages } = await runWith([
    { name: "edit", postToolUse: ({ content }) => ({ content: `${content} KEY=${key}` }) },
  ]);
  expect(messages).toContain("KEY=[redacted]");
  expect(messages).not.toContain(key);
});

test("tools of one's own pass the same hooks", async () => {
  const scenario: Scenario = {
    match: { user: "work" },
    turns: [
      { content: [{ type: "tool_use", id: "toolu_1", name: "count", input: {} }] },
      { content: [{ type: "text", text: "Done." }] },
    ],
  };
  const guard: Hook = {
    name: "guard",
    preToolUse: ({ tool }) => (tool === "count" ? { block: "no" } : undefined),
  };
  expect((await runWith([guard], {}, scenario)).calls()).toBe(0);
  expect((await runWith([], {}, scenario)).calls()).toBe(1);
});

/** Asks the parent `question` under `hook`; returns what the parent read, and what the agent was told. */
async function askUnder(hook: Hook, permissions: PermissionRules = {}) {
  const call = { type: "tool_use" as const, name: "ask_parent", input: { question: "Which colour?" } };
  const told = { content: [{ type: "text" as const, text: "I was told: {{last_tool_result}}" }] };
  const stage = await openStage({ scenario: { turns: [{ content: [call] }, told] } });
  await stage.startWorker({ hooks: [hook] });
  const heard: string[] = [];
  const { summary } = await stage.parent().task({
    prompt: "work",
    permissions,
    onQuestion({ text }) {
      heard.push(text);
      return "green";
    },
  });
  return { heard, summary };
}

test("a question to the parent passes the hooks: one that they block is not asked, and the agent reads why", async () => {
  const { heard, summary } = await askUnder({
    name: "guard",
    preToolUse: ({ tool }) => (tool === "ask_parent" ? { block: "not now" } : undefined),
  });
  expect(heard).toEqual([]);
  expect(summary).toBe("I was told: Blocked by guard: not now");
});

test("a question that a hook changed reaches the parent as the hook made it, or not at all if it is none", async () => {
  const changeTo = (input: Record<string, unknown>): Hook => ({
    name: "edit",
    preToolUse: () => ({ input }),
  });
  const changed = await askUnder(changeTo({ question: "Which shade?" }));
  expect(changed).toEqual({ heard: ["Which shade?"], summary: "I was told: green" });
  const emptied = await askUnder(changeTo({ question: " " }));
  expect(emptied.heard).toEqual([]);
  expect(emptied.summary).toContain("The question was not asked");
});

test("a question that a hook changed is asked also under a rule that asks the parent, but not under one that denies it", async () => {
  const hook: Hook = { name: "edit", preToolUse: () => ({ input: { question: "Which shade?" } }) };
  const asked = { heard: ["Which shade?"], summary: "I was told: green" };
  expect(await askUnder(hook, { default: "ask" })).toEqual(asked);
  const denied = await askUnder(hook, { deny: ["ask_parent(*shade*)"] });
  expect(denied.heard).toEqual([]);
  expect(denied.summary).toContain("Not permitted as a hook changed it (deny ask_parent(*shade*)).");
});

test("a hook at the beginning adds to what the model is told, or ends the run before anything is bought", async () => {
  const told = await runWith([
    { name: "policy", subagentStart: ({ messages }) => ({ context: `heard ${messages.join()}` }) },
  ]);
  expect(told.heads[0]?.messages).toContain("[policy: heard work]");
  const refused = await runWith([{ name: "policy", subagentStart: () => ({ block: "closed" }) }]);
  expect(refused.reply).toMatchObject({
    status: "failed",
    stop_reason: "model_error",
    error: "Blocked by policy: closed",
    turns: 0,
  });
  expect(refused.heads).toEqual([]);
});

test("a hook at the end sees the reply, and may keep it from passing as a success", async () => {
  const seen: unknown[] = [];
  const stop = (verdict?: { block: string }): Hook => ({
    name: "review",
    subagentStop({ status, stopReason, summary }) {
      seen.push([status, stopReason, summary]);
      return verdict;
    },
  });
  expect((await runWith([stop()])).reply.status).toBe("succeeded");
  expect(seen).toEqual([["succeeded", "end_turn", "Done."]]);
  seen.length = 0;
  expect((await runWith([stop({ block: "too short" })])).reply).toMatchObject({
    status: "failed",
    error: "Blocked by review: too short",
  });
  // Nothing is asked about the failure that the hook itself has made of it.
  expect(seen).toEqual([["succeeded", "end_turn", "Done."]]);
});

test("a hook at the end that blocks a reply which is no success is asked once, and the reply says its own reason", async () => {
  const seen: string[] = [];
  const review: Hook = {
    name: "review",
    subagentStop({ stopReason }) {
      seen.push(stopReason);
      return { block: "no success" };
    },
  };
  const { reply } = await runWith([review], {}, { turns: [{ content: [], stop_reason: "refusal" }] });
  expect(reply).toMatchObject({ status: "failed", stop_reason: "refusal" });
  expect(seen).toEqual(["refusal"]);
});

const NEVER_MS = 600_000;
const EVERY_MOMENT = ["subagentStart", "preToolUse", "postToolUse", "subagentStop"] as const;

/** A hook that is asked once `moment` has come, and never answers. */
function silent(moment: (typeof EVERY_MOMENT)[number]) {
  const asked = latch();
  const signals: AbortSignal[] = [];
  const ask = (_what: unknown, signal: AbortSignal) => {
    signals.push(signal);
    asked.open();
    return new Promise<undefined>(() => {});
  };
  const hook: Hook = { name: "silent", timeoutMs: NEVER_MS, [moment]: ask };
  return { hook, asked: asked.opened, signals };
}

test.for(EVERY_MOMENT)(
  "a worker that stops waits for no hook: %s blocks nothing, and the run is handed back",
  async (moment) => {
    const stage = await openStage({ scenario: WRITES });
    const { hook, asked, signals } = silent(moment);
    const worker = await stage.startWorker({ hooks: [hook], drainGraceMs: 0 });
    const agent = await stage.task("work");
    await asked;
    await worker.stop();
    const { status, crashes_without_progress: crashes } = await stage.record(agent);
    expect([status, crashes]).toEqual(["queued", 0]);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    await stage.startWorker();
    expect(await stage.reply(agent)).toMatchObject({ status: "succeeded", summary: "Done." });
  },
);

test("a worker that stops waits for no hook of a question: the next one asks its hooks, and then the parent", async () => {
  const ask = { type: "tool_use" as const, name: "ask_parent", input: { question: "Which colour?" } };
  const stage = await openStage({ scenario: { turns: [{ content: [ask] }] } });
  const { hook, asked } = silent("preToolUse");
  const worker = await stage.startWorker({ hooks: [hook], drainGraceMs: 0 });
  const agent = await stage.task("work", { answer_ms: NEVER_MS });
  await asked;
  await worker.stop();
  expect(await stage.record(agent)).toMatchObject({ status: "queued", progress: { turns: 1 } });
  let calls = 0;
  await stage.startWorker({ hooks: [{ name: "count", preToolUse: () => void calls++ }] });
  await stage.recordWhere(agent, ({ status }) => status === "waiting");
  expect(calls).toBe(1);
});

test("a run that goes on in another worker is not begun again: the hook at its beginning is asked once", async () => {
  const stage = await openStage({ scenario: WRITES });
  const { hook, asked } = silent("postToolUse");
  let begun = 0;
  const greet: Hook = { name: "greet", subagentStart: () => void begun++ };
  const worker = await stage.startWorker({ hooks: [greet, hook], drainGraceMs: 0 });
  const agent = await stage.task("work");
  await asked;
  await worker.stop();
  await stage.startWorker({ hooks: [greet] });
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded" });
  expect(begun).toBe(1);
});

test.for(EVERY_MOMENT)("a destroyed agent waits for no hook: %s holds no slot", async (moment) => {
  const stage = await openStage({ scenario: WRITES });
  const { hook, asked, signals } = silent(moment);
  const worker = await stage.startWorker({ hooks: [hook] });
  const agent = await stage.task("work");
  await asked;
  await stage.destroy(agent);
  await worker.stop();
  expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
  expect((await stage.entries(agent)).map(({ status }) => status)).toEqual(["cancelled"]);
});

test.for(["preToolUse", "postToolUse"] as const)(
  "the time of a run ends %s early enough for the final call",
  async (moment) => {
    const handBack = { content: [{ type: "text" as const, text: "In time." }] };
    const stage = await openStage({ scenario: { ...WRITES, hand_back: handBack } });
    await stage.startWorker({ hooks: [silent(moment).hook] });
    const agent = await stage.task("work", { limits: { ...SPAWN_LIMITS, max_duration_ms: 4_000 } });
    const reply = await stage.reply(agent);
    expect(reply).toMatchObject({ stop_reason: "max_duration", summary: "In time." });
  },
);

test("a hook at the end is asked about the reply that goes out, not about one that a message of the parent keeps back", async () => {
  const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
  const stage = await openStage({ scenario: { turns: [say("Early."), say("Late.")] } });
  const agent = await stage.spawn();
  let calls = 0;
  const model = heldModel(stage, () => (calls++ === 0 ? stage.send(agent, "And?") : undefined));
  const seen: string[] = [];
  const review: Hook = {
    name: "review",
    subagentStop({ summary }) {
      seen.push(summary);
      return summary === "Early." ? { block: "too early" } : undefined;
    },
  };
  await stage.startWorker({ model, hooks: [review] });
  await stage.send(agent, "work");
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded", summary: "Late." });
  expect(seen).toEqual(["Late."]);
});
