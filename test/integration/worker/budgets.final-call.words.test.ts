/** Guarantee: a model that is to report its results is not told to go on first. */
import { expect, test } from "vitest";
import { recordingModel } from "../../helpers/recording-model.ts";
import { openStage } from "../../stage/stage.ts";

test("the final call of a run whose first call used up its budget says nothing of a budget that is nearly used", async () => {
  const scenario = {
    turns: [
      {
        content: [{ type: "tool_use" as const, name: "glob", input: { pattern: "*" } }],
        usage: { input_tokens: 20_000, output_tokens: 100 },
      },
    ],
    hand_back: { content: [{ type: "text" as const, text: "Nothing yet." }] },
  };
  const stage = await openStage({ scenario });
  const { model, heads } = recordingModel(stage.offline.url);
  await stage.startWorker({ model });
  const parent = stage.parent("spent", { budgets: { parent: { max_total_tokens: 15_000 } } });
  expect(await parent.task("work")).toMatchObject({ status: "partial", summary: "Nothing yet." });
  expect(heads).toHaveLength(2);
  expect(heads[1]?.messages).not.toContain("Most of the budget");
});
