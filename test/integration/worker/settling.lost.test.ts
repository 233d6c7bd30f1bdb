/** Guarantee: a run that cannot be settled as it wanted is left to whoever has it, or handed back; none looks for files it has not. */
import { expect, test } from "vitest";
import { z } from "zod";
import { systemClock } from "../../../src/shared/clock.ts";
import type { RunContext } from "../../../src/worker/run/context.ts";
import { run } from "../../../src/worker/run/run.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { kindsWith, runContextOf, skippingClock } from "../../helpers/run-context.ts";
import { type Agent, LONG_TIMING, openStage, type Stage } from "../../stage/stage.ts";

const done = { content: [{ type: "text" as const, text: "done" }] };
const looks = { content: [{ type: "tool_use" as const, name: "look", input: {} }] };
const look = defineTool({
  name: "look",
  description: "Looks.",
  input: z.object({}),
  usesWorkspace: false,
  run: async () => "seen",
});
const { leaseMs } = LONG_TIMING;

/** A queued agent of an installation in which nothing heals by itself. */
async function scene() {
  const stage = await openStage({ scenario: { turns: [looks, done] }, timing: LONG_TIMING });
  return { stage, agent: await stage.task("work") };
}

/** Carries out the agent's first run. `before` happens just before it is settled. */
function carryOut(stage: Stage, agent: Agent, before: () => unknown, more: Partial<RunContext> = {}) {
  const { store } = stage;
  const settle: typeof store.settle = async (address, input) => {
    await before();
    return store.settle(address, input);
  };
  const context = runContextOf(stage, {
    specs: kindsWith([look]),
    ...more,
    store: { ...store, settle, ...more.store },
  });
  return run(context, { address: agent, wake: 1, timesTaken: 1 });
}

test("a run whose log was lost just before its end is handed back at once: its agent waits for no lease", async () => {
  const { stage, agent } = await scene();
  const { redis, keys } = stage;
  const end = await carryOut(stage, agent, () => redis.del(keys.agent(agent).log));
  expect(end).toEqual({ status: "released", reason: "lease_lost" });
});

test("a run that somebody else ended just before is left alone: nothing is handed back, and no deadline is set for it", async () => {
  const { stage, agent } = await scene();
  const { store, deadlines } = stage;
  const written: string[] = [];
  let isOver = false;
  const release: typeof store.release = async (...given) => {
    written.push("release");
    return store.release(...given);
  };
  const hint: typeof deadlines.hint = async (...given) => {
    if (isOver) written.push("hint");
    return deadlines.hint(...given);
  };
  const destroy = async () => {
    await stage.destroy(agent);
    isOver = true;
  };
  const told = { ...stage, store: { ...store, release } };
  const end = await carryOut(told, agent, destroy, { deadlines: { ...deadlines, hint } });
  expect(end).toEqual({ status: "lost" });
  expect(written).toEqual([]);
});

test("the reply of a run that used no file waits for no volume, and does not say that there may be files", async () => {
  const { stage, agent } = await scene();
  const none = { cancel: () => {} };
  const clock: typeof systemClock = {
    ...systemClock,
    timeout(ms, callback) {
      if (ms !== 5_000) return systemClock.timeout(ms, callback);
      callback();
      return none;
    },
  };
  expect(await carryOut(stage, agent, () => {}, { clock })).toMatchObject({ status: "settled" });
  const reply = await stage.reply(agent);
  expect(reply).toMatchObject({ status: "succeeded", summary: "done" });
  expect([reply.files, reply.more_files]).toEqual([undefined, undefined]);
});

test("a lease that is over before the end of a run is one that was lost: no hook is asked about a reply that is not sent", async () => {
  const stage = await openStage({ scenario: { turns: [done] }, timing: LONG_TIMING });
  const { store } = stage;
  const agent = await stage.task("work");
  const clock = skippingClock();
  let asked = 0;
  const inbox: typeof store.inbox = async (address) => {
    clock.skip(leaseMs);
    return store.inbox(address);
  };
  const guard = { name: "guard", subagentStop: () => void asked++ };
  // A renewal that tells of other messages makes the run read them before its next step.
  const model = heldModel(stage, async () => {
    context.leases.held.get(agent.uid)?.onStatus({ inbox: 7, finish: false, watched: false });
  });
  const told = { ...stage, store: { ...store, inbox } };
  const context = runContextOf(told, { clock, model, hooks: [guard] });
  const end = await run(context, { address: agent, wake: 1, timesTaken: 1 });
  expect(end).toEqual({ status: "released", reason: "lease_lost" });
  expect(asked).toBe(0);
});
