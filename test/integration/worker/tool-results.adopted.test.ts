/** Guarantee: results that stand otherwise in the log stay as they are: what comes behind them is read from the log, not written. */
import { expect, test } from "vitest";
import { z } from "zod";
import { entryKey } from "../../../src/shared/protocol/log.ts";
import { newResult } from "../../../src/worker/loop/log.ts";
import { run } from "../../../src/worker/run/run.ts";
import { sendAgentMessageTool } from "../../../src/worker/tools/builtin/parent.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { latch } from "../../helpers/latch.ts";
import { kindsWith, runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage, type Stage } from "../../stage/stage.ts";

const done = { content: [{ type: "text" as const, text: "done" }] };
const tell = (id: string) => ({
  type: "tool_use" as const,
  id,
  name: "send_agent_message",
  input: { target_agent_id: "parent", message: id },
});
const wait = (id: string) => ({ type: "tool_use" as const, id, name: "wait", input: { id } });

/** Carries out a run with `calls`; when the result of the first is to be written, all have another one in the log. */
async function runOf(
  calls: readonly ReturnType<typeof tell | typeof wait>[],
  { specs, adopted = () => {} }: { specs: ReturnType<typeof kindsWith>; adopted?: () => void },
) {
  const stage: Stage = await openStage({
    scenario: { turns: [{ content: [...calls] }, done] },
    timing: LONG_TIMING,
  });
  const { store, redis, keys } = stage;
  const agent = await stage.task("work", { keep_alive: true });
  const { log } = keys.agent(agent);
  const first = entryKey.result(1, calls[0]?.id ?? "");
  const append: typeof store.append = async (address, input) => {
    if (input.entries?.some(([key]) => key === first))
      for (const { id } of calls)
        await redis.hsetnx(log, entryKey.result(1, id), newResult(1, id, "theirs").json);
    return store.append(address, input);
  };
  const load: typeof store.load = async (address) => {
    const stored = await store.load(address);
    setImmediate(adopted);
    return stored;
  };
  const context = runContextOf(stage, { specs, store: { ...store, append, load } });
  const end = await run(context, { address: agent, wake: 1, timesTaken: 1 });
  return { end, results: await redis.hmget(log, ...calls.map(({ id }) => entryKey.result(1, id))) };
}

test("a result that comes after another one was found otherwise in the log is not written over what stands there", async () => {
  const adopted = latch();
  const tool = defineTool({
    name: "wait",
    description: "Waits.",
    input: z.object({ id: z.string() }),
    usesWorkspace: false,
    run: async ({ id }) => {
      if (id === "late") await adopted.opened;
      return "mine";
    },
  });
  const { end, results } = await runOf([wait("early"), wait("late")], {
    specs: kindsWith([tool]),
    adopted: adopted.open,
  });
  expect(end).toMatchObject({ status: "settled", reply: { status: "succeeded", turns: 2 } });
  for (const json of results) expect(json).toContain("theirs");
});

test("of messages to the parent none is written whose results stand otherwise in the log", async () => {
  const { end } = await runOf([tell("a"), tell("b")], { specs: kindsWith([sendAgentMessageTool()]) });
  expect(end).toMatchObject({ status: "settled", reply: { status: "succeeded", turns: 2 } });
});
