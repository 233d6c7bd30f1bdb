/** Guarantee: a run is settled once, as its agent then stands: whatever came between its last step and its end. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { createLogger } from "../../../src/shared/logger.ts";
import { SPAWN_LIMITS } from "../../../src/shared/protocol/limits.ts";
import { run } from "../../../src/worker/run/run.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { kindsWith, patientClock, runContextOf } from "../../helpers/run-context.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, LONG_TIMING, openStage, type Stage } from "../../stage/stage.ts";

const done = { content: [{ type: "text" as const, text: "done" }] };

/** Carries the agent's first run out in this process; `before` happens just before it is settled. */
function carryOut(installation: Stage, agent: Agent, before: () => Promise<unknown>) {
  const { store } = installation;
  const settle: typeof store.settle = async (address, input) => {
    await before();
    return store.settle(address, input);
  };
  const context = runContextOf(installation, { store: { ...store, settle } });
  return run(context, { address: agent, wake: 1, timesTaken: 1 });
}

test("a message that came just before the natural end of a run keeps it going", async () => {
  const installation = await openStage({ scenario: { turns: [done, done] } });
  const agent = await installation.task("work");
  let sent: Promise<string> | undefined;
  const end = await carryOut(installation, agent, async () => {
    sent ??= installation.send(agent, "one more thing");
    await sent;
  });
  expect(await sent).toBe("delivered");
  expect(end).toMatchObject({ status: "settled", reply: { status: "succeeded", turns: 2 } });
});

test("a run whose agent was destroyed just before its end is not reported as settled", async () => {
  const installation = await openStage({ scenario: { turns: [done] } });
  const agent = await installation.task("work");
  const end = await carryOut(installation, agent, () => installation.destroy(agent));
  expect(end).toEqual({ status: "lost" });
});

test("a message that came just before the end of a run that is over its limit wakes the agent for another one", async () => {
  const installation = await openStage({ scenario: { turns: [done], hand_back: done } });
  const { redis, keys } = installation;
  const limits = { ...SPAWN_LIMITS, max_turns: 1 };
  const agent = await installation.task("work", { keep_alive: true, limits });
  const end = await carryOut(installation, agent, () => installation.send(agent, "more"));
  expect(end).toMatchObject({ status: "settled", reply: { status: "partial", stop_reason: "max_turns" } });
  expect(await redis.exists(keys.wakeJob(`${agent.uid}.2`))).toBe(1);
});

test("a run that failed ends its agent, also one that is kept alive", async () => {
  const installation = await openStage({ scenario: { turns: [{ error: { status: 400 } }] } });
  const agent = await installation.task("work", { keep_alive: true });
  const end = await carryOut(installation, agent, async () => {});
  expect(end).toMatchObject({ status: "settled", reply: { status: "failed" } });
  expect(await installation.store.record(agent)).toMatchObject({ status: "ended", ended_reason: "failed" });
});

test("a hint that Redis refuses does not keep a run from being claimed, listed and settled", async () => {
  const write = defineTool({
    name: "write_notes",
    description: "Writes notes.",
    input: z.object({}),
    run: async (_input, { workspace }) => {
      for (let i = 0; i < 50; i++) await writeFile(join(workspace.directory, `note-${i}.md`), "noted");
    },
  });
  const call = { content: [{ type: "tool_use" as const, name: "write_notes", input: {} }] };
  const installation = await openStage({ timing: LONG_TIMING, scenario: { turns: [call, done] } });
  const { redis, keys } = installation;
  const agent = await installation.task("work", { keep_alive: true });
  await redis.del(keys.hintGrace);
  await redis.set(keys.hintGrace, "foreign");
  const lines: string[] = [];
  const logger = createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } });
  const clock = patientClock();
  const context = runContextOf(installation, { specs: kindsWith([write]), logger, clock });
  const end = await run(context, { address: agent, wake: 1, timesTaken: 1 });
  expect(end).toMatchObject({ status: "settled", reply: { status: "succeeded" } });
  expect((await installation.reply(agent)).files).toHaveLength(50);
  // At the claim and at the end, each time also the second one.
  await until(() => lines.filter((line) => line.includes("No deadline was set")).length === 2);
});
