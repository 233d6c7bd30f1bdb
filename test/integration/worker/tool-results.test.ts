/** Guarantee: each result is committed soon after it came, however long other tools take; what was not done counts as no call. */
import { expect, test } from "vitest";
import { z } from "zod";
import { entryKey } from "../../../src/shared/protocol/log.ts";
import type { Hook } from "../../../src/worker/hooks/hooks.ts";
import { run } from "../../../src/worker/run/run.ts";
import { askParentTool } from "../../../src/worker/tools/builtin/parent.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { latch } from "../../helpers/latch.ts";
import { kindsWith, runContextOf } from "../../helpers/run-context.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

test("one of several results after another is in the log while the last tool still runs", async () => {
  const names = ["first", "second", "third"];
  const ended = new Map(names.map((name) => [name, latch()]));
  const wait = defineTool({
    name: "wait",
    description: "Waits.",
    input: z.object({ name: z.string() }),
    usesWorkspace: false,
    run: async ({ name }) => {
      await ended.get(name)?.opened;
      return `${name} is over`;
    },
  });
  const calls = names.map((name) => ({ type: "tool_use" as const, id: name, name: "wait", input: { name } }));
  const stage = await openStage({
    timing: LONG_TIMING,
    scenario: { turns: [{ content: calls }, { content: [{ type: "text", text: "done" }] }] },
  });
  const agent = await stage.task("work");
  const context = runContextOf(stage, { specs: kindsWith([wait]) });
  const over = run(context, { address: agent, wake: 1, timesTaken: 1 });
  const results = async () => {
    const stored = await stage.redis.hkeys(stage.keys.agent(agent).log);
    return names.filter((name) => stored.includes(entryKey.result(1, name)));
  };
  for (const expected of [["first"], ["first", "second"]]) {
    ended.get(expected.at(-1) ?? "")?.open();
    await until(async () => (await results()).length === expected.length);
    expect(await results()).toEqual(expected);
  }
  ended.get("third")?.open();
  expect(await over).toMatchObject({ status: "settled", reply: { status: "succeeded", turns: 2 } });
});

test("a question that a hook keeps from the parent is no call of the reply, and its agent waits for nothing", async () => {
  const question = {
    type: "tool_use" as const,
    id: "q",
    name: "ask_parent",
    input: { question: "Which?" },
  };
  const stage = await openStage({
    timing: LONG_TIMING,
    scenario: { turns: [{ content: [question] }, { content: [{ type: "text", text: "done" }] }] },
  });
  const agent = await stage.task("work", { answer_ms: 60_000 });
  const guard: Hook = { name: "guard", preToolUse: () => ({ block: "Not now." }) };
  const context = runContextOf(stage, { specs: kindsWith([askParentTool()]), hooks: [guard] });
  expect(await run(context, { address: agent, wake: 1, timesTaken: 1 })).toMatchObject({
    status: "settled",
    reply: { status: "succeeded", turns: 2 },
  });
  expect((await stage.reply(agent)).tools_called).toEqual({});
});
