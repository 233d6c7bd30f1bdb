/** Guarantee: each call says what its own model takes of the effort and the task budget, and what of it a summary has left. */
import { expect, test } from "vitest";
import { chapters, page, say } from "../../helpers/chapters.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { openStage } from "../../stage/stage.ts";

test("the next model of a chain is told only what it takes itself", async () => {
  const limited = { status: 429, headers: { "retry-after": "30" } };
  const stage = await openStage({ scenario: { turns: [{ ...say("done"), failures: [limited] }] } });
  const { model, heads } = recordingModel(stage.offline.url);
  await stage.startWorker({ model, random: () => 0.1 });
  const chain = { model: "claude-opus-5-5", fallback_models: ["claude-haiku-4-5"] };
  const reply = await stage.parent("frugal", { ...chain, effort: "high", task_budget: 40_000 }).task("work");
  expect(reply).toMatchObject({ status: "succeeded", model: "claude-haiku-4-5" });
  expect(heads.map((head) => [head.model, head.outputConfig, head.beta])).toEqual([
    [
      "claude-opus-5-5",
      { effort: "high", task_budget: { type: "tokens", total: 40_000 } },
      "task-budgets-2026-03-13",
    ],
    ["claude-haiku-4-5", undefined, undefined],
  ]);
});

test("after a summary the model is told what is left of its task budget: the provider no longer sees the rest", async () => {
  const windowTokens = 36_000;
  const scenario = [
    { match: { user: "Your own summary" }, turns: [say("-"), say("-"), say("The end.")], windowTokens },
    { turns: [...chapters, say("never said")], hand_back: say("Three chapters."), windowTokens },
  ];
  const stage = await openStage({ scenario });
  const { model, heads } = recordingModel(stage.offline.url);
  await stage.startWorker({ model, tools: [page] });
  const total = 200_000;
  const parent = stage.parent("frugal", { model: "offline-1", task_budget: total });
  const reply = await parent.task("work");
  expect(reply).toMatchObject({ status: "succeeded", compactions: 1 });
  const told = heads.map(({ outputConfig }) => outputConfig);
  const whole = { task_budget: { type: "tokens", total } };
  expect(told.slice(0, -1)).toEqual(told.slice(0, -1).map(() => whole));
  const chapterTokens = 30_000 / 4;
  const { task_budget: last } = told.at(-1) as { task_budget: { remaining: number } };
  expect(last).toEqual({ ...whole.task_budget, remaining: expect.any(Number) });
  expect(last.remaining).toBeLessThan(total - 2 * chapterTokens);
  expect(last.remaining).toBeGreaterThan(total - 6 * chapterTokens);
});
