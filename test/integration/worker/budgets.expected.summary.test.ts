/** Guarantee: a summary, which is asked for without what the provider has cached, is expected to cost its own prompt alone. */
import { expect, test } from "vitest";
import { run } from "../../../src/worker/run/run.ts";
import { chapters, page, say } from "../../helpers/chapters.ts";
import { watchedBudgets } from "../../helpers/reservations.ts";
import { kindsWith, runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const WINDOW = 36_000;

test("the summary of a conversation that has become too long takes less out of a budget than the call that did not fit", async () => {
  const forSummaries = { match: { user: "Your own summary" }, turns: [say("-"), say("-"), say("The end.")] };
  const scenario = [
    { ...forSummaries, windowTokens: WINDOW },
    { turns: [...chapters, say("never said")], hand_back: say("Three chapters."), windowTokens: WINDOW },
  ];
  const stage = await openStage({ scenario, timing: LONG_TIMING });
  const agent = await stage.task("work", { budgets: { parent: { max_total_tokens: 10_000_000 } } });
  const { budgets, amounts } = watchedBudgets(stage);
  const context = runContextOf(stage, { budgets, specs: kindsWith([page]) });
  await run(context, { address: agent, wake: 1, timesTaken: 1 });
  const expected = amounts.map(({ tokens }) => tokens);
  const tooLong = Math.max(...expected);
  expect(tooLong).toBeGreaterThan(WINDOW);
  // Behind the request that did not fit: one for the summary of a part of it, and the last call of the run.
  const later = expected.slice(expected.indexOf(tooLong) + 1);
  expect(later).toHaveLength(2);
  expect(Math.max(...later)).toBeLessThan(WINDOW);
});
