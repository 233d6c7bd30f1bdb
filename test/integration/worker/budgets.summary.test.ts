/** Guarantee: a summary takes from a budget what it costs, as every other call. */
import { expect, test } from "vitest";
import { budgetsOf, readSpent } from "../../../src/shared/redis/budget.ts";
import { chapters, page, say } from "../../helpers/chapters.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const WINDOW = 36_000;

test("what is spent of a budget is what the calls of a run cost, its summary among them", async () => {
  const scenario = [
    {
      match: { user: "Your own summary" },
      turns: [say("-"), say("-"), say("The end.")],
      windowTokens: WINDOW,
    },
    { turns: [...chapters, say("never said")], hand_back: say("Three chapters."), windowTokens: WINDOW },
  ];
  const stage = await openStage({ scenario });
  await stage.startWorker({ tools: [page] });
  const budgets = { parent: { max_total_tokens: 10_000_000 } };
  const reply = await stage.parent("frugal", { model: "offline-1", budgets }).task("work");
  expect(reply).toMatchObject({ status: "succeeded", compactions: 1 });
  const [budget] = budgetsOf({ tenant: "default", parentId: "frugal", uid: "" }, budgets);
  if (!budget) throw new Error("no budget binds the parent");
  await until(async () => (await readSpent(stage.redis, stage.keys, budget)).tokens === reply.tokens);
});
