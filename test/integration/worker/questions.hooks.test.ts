/** Guarantee: a question is asked under the hooks, the time and the wishes of the parent that hold when it is asked. */
import { expect, test } from "vitest";
import { SPAWN_LIMITS } from "../../../src/shared/protocol/limits.ts";
import { entryKey } from "../../../src/shared/protocol/log.ts";
import type { Hook } from "../../../src/worker/hooks/hooks.ts";
import { run } from "../../../src/worker/run/run.ts";
import { askParentTool } from "../../../src/worker/tools/builtin/parent.ts";
import { kindsWith, runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage, type SpawnOptions } from "../../stage/stage.ts";

const ask = (id: string) => ({
  type: "tool_use" as const,
  id,
  name: "ask_parent",
  input: { question: `Which ${id}?` },
});
const HOUR_MS = 3_600_000;

/** A queued agent that asks `ids`, in an installation in which nothing heals by itself. */
async function scene(ids: readonly string[], spec: SpawnOptions = {}) {
  const stage = await openStage({
    scenario: {
      turns: [{ content: ids.map(ask) }],
      hand_back: { content: [{ type: "text", text: "So far." }] },
    },
    timing: LONG_TIMING,
  });
  const agent = await stage.task("work", { answer_ms: HOUR_MS, ...spec });
  const perform = (more: Parameters<typeof runContextOf>[1] = {}) =>
    run(runContextOf(stage, { specs: kindsWith([askParentTool()]), ...more }), {
      address: agent,
      wake: 1,
      timesTaken: 1,
    });
  return { stage, agent, perform };
}

test("a parent that asks for a report just before the question gets the report from the same worker", async () => {
  const { stage, agent, perform } = await scene(["colour"]);
  const { store } = stage;
  const finished: typeof store.ask = async (address, input) => {
    await stage.parent(agent.parentId).finish(agent.agentId);
    return store.ask(address, input);
  };
  expect(await perform({ store: { ...store, ask: finished } })).toMatchObject({
    status: "settled",
    reply: { status: "partial", stop_reason: "finished_by_parent" },
  });
});

test("a question that a hook keeps from the parent is answered in the log before the others are asked", async () => {
  const { stage, agent, perform } = await scene(["colour", "shade"]);
  const guard: Hook = {
    name: "guard",
    preToolUse: ({ input }) => (JSON.stringify(input).includes("shade") ? { block: "Not now." } : undefined),
  };
  expect(await perform({ hooks: [guard] })).toEqual({ status: "released", reason: "question" });
  const { redis, keys } = stage;
  expect(await redis.hget(keys.agent(agent).log, entryKey.result(1, "shade"))).toContain("Not now.");
});

test("a hook of a question that does not answer is left when only the time of the final call is left", async () => {
  const limits = { ...SPAWN_LIMITS, max_duration_ms: 4_000 };
  const { stage, agent, perform } = await scene(["colour"], { limits });
  // Its own time is over after that of the run.
  const silent: Hook = {
    name: "silent",
    timeoutMs: 6_000,
    preToolUse: () => new Promise<undefined>(() => {}),
  };
  await perform({ hooks: [silent] });
  expect(await stage.reply(agent)).toMatchObject({
    status: "partial",
    stop_reason: "max_duration",
    summary: "So far.",
  });
});
