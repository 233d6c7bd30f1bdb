/** Guarantee: of two notices to the model none takes the other's place. */
import { expect, test } from "vitest";
import type { Hook } from "../../../src/worker/hooks/hooks.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { openStage } from "../../stage/stage.ts";

const usage = {
  input_tokens: 900,
  output_tokens: 100,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
};
const scenario = {
  turns: [
    { content: [{ type: "tool_use" as const, name: "glob", input: { pattern: "*" } }], usage },
    { content: [{ type: "text" as const, text: "Found." }], usage },
  ],
};

test("a model whose message begins with another notice is told with the next one that a budget is nearly used", async () => {
  const stage = await openStage({ scenario });
  const { model, heads } = recordingModel(stage.offline.url);
  const greet: Hook = { name: "greet", subagentStart: () => ({ context: "The build is red." }) };
  await stage.startWorker({ model, hooks: [greet] });
  const parent = stage.parent("noticed", { budgets: { parent: { max_total_tokens: 13_000 } } });
  // Ten calls of 1,000 tokens each.
  for (let i = 0; i < 5; i++) await parent.task("work");
  const calls = heads.length;
  await parent.task("work");
  const texts = heads.slice(calls).map(({ messages }) => messages);
  expect(
    texts.map((text) => [text.includes("The build is red."), text.includes("Most of the budget")]),
  ).toEqual([
    [true, false],
    [true, true],
  ]);
});
