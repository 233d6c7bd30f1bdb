/** Guarantee: a summary takes from a budget what it costs, as every other call. */
import { expect, test } from "vitest";
import { z } from "zod";
import { budgetsOf, readSpent } from "../../../src/shared/redis/budget.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const page = defineTool({
  name: "page",
  description: "One page.",
  input: z.object({ number: z.int() }),
  run: async ({ number }) => `page ${number}`,
});
const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
const chapters = [1, 2, 3, 4, 5].map((number) => ({
  content: [
    { type: "text" as const, text: `chapter ${number}: ${"word ".repeat(6_000)}` },
    { type: "tool_use" as const, id: `toolu_${number}`, name: "page", input: { number } },
  ],
}));
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
