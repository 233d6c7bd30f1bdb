/** Guarantee: a run that finds another answer in its log goes on behind that one, with the worker that holds it. */
import { expect, test } from "vitest";
import { newAnswer } from "../../../src/worker/loop/log.ts";
import { run } from "../../../src/worker/run/run.ts";
import { page } from "../../helpers/chapters.ts";
import { kindsWith, runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const usage = {
  input_tokens: 7,
  output_tokens: 3,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
};
const said = (text: string) => [{ type: "text" as const, text }];

test("an answer that stands otherwise in the log before the next call is read from there, and the call is made", async () => {
  const call = { content: [{ type: "tool_use" as const, name: "page", input: { number: 1 } }], usage };
  const paused = { content: said("mine"), stop_reason: "pause_turn" as const, usage };
  const turns = [call, paused, { content: said("done"), usage }];
  const stage = await openStage({ scenario: { turns }, timing: LONG_TIMING });
  const { store, redis, keys } = stage;
  const agent = await stage.task("work");
  const content = said("theirs");
  const other = {
    content,
    contentJson: JSON.stringify(content),
    stopReason: "pause_turn",
    model: "offline-1",
  };
  const append: typeof store.append = async (address, input) => {
    for (const [key, json] of input.entries ?? []) {
      if (!json.includes("mine")) continue;
      const theirs = newAnswer(Number(key), { ...other, usage, costUsd: 0 }, 1);
      await redis.hsetnx(keys.agent(agent).log, key, theirs.json);
    }
    return store.append(address, input);
  };
  const context = runContextOf(stage, { specs: kindsWith([page]), store: { ...store, append } });
  const end = await run(context, { address: agent, wake: 1, timesTaken: 1 });
  expect(end).toMatchObject({ status: "settled" });
  // The two that were to be the second answer were both bought.
  const tokens = 4 * (usage.input_tokens + usage.output_tokens);
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded", summary: "done", tokens });
  expect(stage.offline.ledger).toHaveLength(3);
});
