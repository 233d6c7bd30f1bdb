/**
 * Guarantee: whatever stands between two model calls, Redis knows of the second before it begins. A holder that dies in it is
 * in no doubt to have died in a tool, and the next one is told which call to charge.
 */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { totalTokens } from "../../../src/shared/protocol/content.ts";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import type { LeaseKeeper } from "../../../src/worker/run/lease.ts";
import { run } from "../../../src/worker/run/run.ts";
import { sendAgentMessageTool } from "../../../src/worker/tools/builtin/parent.ts";
import { defineTool, type Tool } from "../../../src/worker/tools/tool.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { latch } from "../../helpers/latch.ts";
import { kindsWith, runContextOf } from "../../helpers/run-context.ts";
import { type Agent, LONG_TIMING, openStage, type SpawnOptions, type Stage } from "../../stage/stage.ts";

const look = defineTool({
  name: "look",
  description: "Looks.",
  input: z.object({}),
  idempotent: true,
  usesWorkspace: false,
  run: async () => "seen",
});
const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
const use = (...calls: [name: string, input?: Record<string, unknown>][]) => ({
  content: calls.map(([name, input = {}]) => ({ type: "tool_use" as const, name, input })),
});
const tell = ["send_agent_message", { target_agent_id: "parent", message: "so far" }] as const;

interface Scene {
  what: string;
  first: ReturnType<typeof say> | ReturnType<typeof use>;
  spec?: SpawnOptions;
  /** Done while the first call is under way. */
  meanwhile?: (stage: Stage, agent: Agent, leases: LeaseKeeper) => Promise<unknown>;
}

/** Performs a run until its second call; what a claim after the death of its holder is answered there, and which call it was. */
async function deathInSecondCall({ first, spec, meanwhile }: Scene) {
  const stage = await openStage({ scenario: { turns: [first, say("done")] }, timing: LONG_TIMING });
  const agent = await stage.task("work", spec);
  const { record } = stage.keys.agent(agent);
  let calls = 0;
  let next: Awaited<ReturnType<Stage["store"]["claim"]>> | undefined;
  let called: string | undefined;
  const model = heldModel(stage, async ({ purchaseId }) => {
    calls += 1;
    if (calls === 1) await meanwhile?.(stage, agent, context.leases);
    if (calls !== 2) return;
    called = purchaseId;
    await stage.redis.hset(record, "lease_until", "0");
    next = await stage.store.claim(agent, { claim_id: newRequestKey(), worker: "next", can_isolate: true });
  });
  const specs = kindsWith([look, sendAgentMessageTool()]);
  const context = runContextOf(stage, { model, specs });
  await run(context, { address: agent, wake: 1, timesTaken: 1 });
  return { next, called: called?.slice(`${agent.uid}.`.length) };
}

test.for<Scene>([
  { what: "a tool", first: use(["look"]) },
  { what: "two tools", first: use(["look"], ["look"]) },
  { what: "a message for the parent", first: use([...tell]) },
  { what: "a tool and a message for the parent", first: use(["look"], [...tell]) },
  { what: "a tool that is denied", first: use(["look"]), spec: { permissions: [{ deny: ["look"] }] } },
  { what: "a tool that there is none of", first: use(["nope"]) },
  {
    what: "a tool while a message came that a renewal has told of",
    first: use(["look"]),
    async meanwhile(stage, agent, leases) {
      await stage.send(agent, "and another thing");
      await leases.held.get(agent.uid)?.renew();
    },
  },
  {
    what: "an answer while a message came",
    first: say("done"),
    meanwhile: (stage, agent) => stage.send(agent, "and another thing"),
  },
  { what: "an empty answer", first: say("") },
])("the call behind $what is known before it begins", async (scene) => {
  const { next, called } = await deathInSecondCall(scene);
  expect(next).toMatchObject({ status: "claimed", lost_call: called });
});

test("a lost call is charged by the worker that can read the log, once, however many could not before it", async () => {
  const stage = await openStage({ scenario: { turns: [say("done")] }, timing: LONG_TIMING });
  const { store, redis, keys, offline } = stage;
  const agent = await stage.task("work");
  const { record } = keys.agent(agent);
  const lost = { status: "running", epoch: "1", lease_until: "0", begun: "1.1" };
  await redis.hset(record, lost);
  const unread: typeof store = { ...store, claimed: () => Promise.reject(new Error("LOADING Redis")) };
  for (let wake = 1; wake <= 2; wake += 1) {
    const end = await run(runContextOf(stage, { store: unread }), { address: agent, wake, timesTaken: 1 });
    expect(end).toMatchObject({ status: "released", reason: "broken_off" });
    await redis.hdel(record, "not_before");
  }
  expect((await stage.parent(agent.parentId).usage()).tokens).toBe(0);
  const bought = { address: agent, wake: 3, timesTaken: 1 };
  expect(await run(runContextOf(stage), bought)).toMatchObject({ status: "settled" });
  const [{ usage } = { usage: null }] = offline.ledger;
  const { tokens } = await stage.parent(agent.parentId).usage();
  expect(tokens).toBeGreaterThan(usage === null ? 0 : totalTokens(usage));
});

test("a tool call that is made again announces the model call behind it, and the next holder has it to charge", async () => {
  const stage = await openStage({ scenario: { turns: [use(["look"]), say("done")] }, timing: LONG_TIMING });
  const agent = await stage.task("work");
  const { record } = stage.keys.agent(agent);
  const [begun, released] = [latch(), latch()];
  const stuck = defineTool({
    ...{ name: "look", description: "Stands still.", input: z.object({}), usesWorkspace: false },
    async run() {
      begun.open();
      await released.opened;
    },
  });
  const first = run(runContextOf(stage, { specs: kindsWith([stuck]) }), {
    address: agent,
    wake: 1,
    timesTaken: 1,
  });
  await begun.opened;
  await stage.redis.hset(record, "lease_until", "0");
  let next: Awaited<ReturnType<Stage["store"]["claim"]>> | undefined;
  let called = "";
  const model = heldModel(stage, async ({ purchaseId }) => {
    called = purchaseId.slice(`${agent.uid}.`.length);
    await stage.redis.hset(record, "lease_until", "0");
    next = await stage.store.claim(agent, { claim_id: newRequestKey(), worker: "next", can_isolate: true });
  });
  const second = runContextOf(stage, { model, specs: kindsWith([look]) });
  await run(second, { address: agent, wake: 2, timesTaken: 1 });
  released.open();
  expect(await first).toEqual({ status: "lost" });
  expect(called).toMatch(/^3\./);
  expect(next).toMatchObject({ status: "claimed", lost_call: called });
});

const touch = defineTool({
  ...{ name: "touch", description: "Touches." },
  input: z.object({}),
  run: async (_, { agentId }) => agentId,
});

/** Machines, each with workspaces of its own, that one after another perform a run of two tool calls. */
async function machines(tool: Tool = touch) {
  const turns = [use(["touch"]), use(["touch"]), say("done")];
  const stage = await openStage({ scenario: { turns }, timing: LONG_TIMING });
  const agent = await stage.task("work");
  const begin = (n: number, beforeCall: (call: number) => Promise<void> | undefined) => {
    let calls = 0;
    const model = heldModel(stage, () => {
      calls += 1;
      return beforeCall(calls);
    });
    const workspaceRoot = join(stage.workspaceRoot, `${n}`);
    const context = runContextOf(stage, { model, specs: kindsWith([tool]), workspaceRoot });
    return run(context, { address: agent, wake: n, timesTaken: 1 });
  };
  return {
    stage,
    agent,
    /** Machine `n` performs the run; resolves to what became of that. */
    perform: (n: number) => begin(n, () => undefined),
    /** Machine `n` performs the run and dies in its call of this number. */
    async dieInCall(n: number, dyingCall: number) {
      const [calling, released] = [latch(), latch()];
      const going = begin(n, (call) => {
        if (call !== dyingCall) return undefined;
        calling.open();
        return released.opened;
      });
      closeAtEnd(async () => {
        released.open();
        await going;
      });
      await calling.opened;
      await stage.redis.hset(stage.keys.agent(agent).record, "lease_until", "0");
    },
  };
}

test.for([
  ["that uses files", touch],
  // One that no `defineTool` made.
  ["that does not say whether it uses files", { ...touch, usesWorkspace: undefined }],
] as const)(
  "after a tool %s, that they are gone is told once, however many machines take the run over",
  async ([, tool]) => {
    const { stage, agent, dieInCall, perform } = await machines(tool);
    // Watched, a run writes what it has told before its first call.
    await stage.redis.set(stage.keys.parent(agent).watching, "1");
    await dieInCall(1, 2);
    await dieInCall(2, 1);
    expect(await stage.redis.hkeys(stage.keys.agent(agent).log)).toContain("2/notice");
    expect(await perform(3)).toMatchObject({ status: "settled", reply: { status: "succeeded", turns: 3 } });
  },
);

test("a call under way at a death is charged also where the next holder cannot begin", async () => {
  const { stage, agent, dieInCall, perform } = await machines();
  await dieInCall(1, 2);
  await writeFile(join(stage.workspaceRoot, "2"), "a file where its workspaces should be");
  expect(await perform(2)).toMatchObject({ status: "released" });
  const { usage } = await stage.store.usage(agent, 0);
  expect(usage.input_tokens).toBeGreaterThan(0);
});
