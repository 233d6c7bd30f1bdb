/** Guarantee: a call takes out of a budget what it will probably cost, so that calls which begin together do not all find it empty. */
import { expect, test } from "vitest";
import { z } from "zod";
import { budgetsOf, createBudgetBook, readSpent } from "../../../src/shared/redis/budget.ts";
import { run } from "../../../src/worker/run/run.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { kindsWith, runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

test("the first call takes some hundred tokens of output, and a later one as much as the last answer had", async () => {
  const look = defineTool({
    name: "look",
    description: "Looks.",
    input: z.object({}),
    usesWorkspace: false,
    run: async () => "seen",
  });
  const stage = await openStage({
    scenario: {
      turns: [
        { content: [{ type: "tool_use", name: "look", input: {} }], usage: { output_tokens: 3_000 } },
        { content: [{ type: "text", text: "done" }] },
      ],
    },
    timing: LONG_TIMING,
  });
  const budgets = { parent: { max_total_tokens: 1_000_000 } };
  const agent = await stage.task("work", { budgets });
  const [budget] = budgetsOf(agent, budgets);
  if (!budget) return expect.unreachable();
  const { redis, keys, store } = stage;
  const spent: number[] = [];
  const book = createBudgetBook(redis, keys, store.timing);
  const reserve: typeof book.reserve = async (...given) => {
    const answer = await book.reserve(...given);
    spent.push((await readSpent(redis, keys, budget)).tokens);
    return answer;
  };
  const context = runContextOf(stage, { budgets: { ...book, reserve }, specs: kindsWith([look]) });
  await run(context, { address: agent, wake: 1, timesTaken: 1 });
  const [first = 0, second = 0] = spent;
  const [{ usage } = { usage: null }] = stage.offline.ledger;
  const paid = usage ? usage.input_tokens + usage.output_tokens : 0;
  expect(first).toBeGreaterThan(500);
  expect(first).toBeLessThan(3_000);
  expect(second - paid).toBeGreaterThan(3_000);
});
