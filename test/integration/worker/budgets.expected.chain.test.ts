/** Guarantee: a call that another model of the chain is asked for is expected to have the whole price of its prompt: it has no cache of it. */
import { expect, test } from "vitest";
import { run } from "../../../src/worker/run/run.ts";
import { page, say } from "../../helpers/chapters.ts";
import { watchedBudgets } from "../../helpers/reservations.ts";
import { kindsWith, runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const CACHED = 20_000;
const usage = { input_tokens: 100, cache_creation_input_tokens: CACHED, cache_read_input_tokens: 0 };
const reading = { content: [{ type: "tool_use" as const, name: "page", input: { number: 1 } }], usage };

test("the model that answered before reads its cache, the next one of the chain pays for all", async () => {
  const limited = { status: 429, headers: { "retry-after": "30" } };
  const scenario = { turns: [reading, { ...say("done"), failures: [limited] }] };
  const stage = await openStage({ scenario, timing: LONG_TIMING });
  const chain = { model: "claude-sonnet-4-5", fallback_models: ["claude-haiku-4-5"] };
  const agent = await stage.task("work", { ...chain, budgets: { parent: { max_cost_usd: 100 } } });
  const { budgets, amounts } = watchedBudgets(stage);
  const context = runContextOf(stage, { budgets, specs: kindsWith([page]) });
  await run(context, { address: agent, wake: 1, timesTaken: 1 });
  const expected = amounts.map(({ costUsd }) => costUsd);
  expect(stage.offline.ledger.map(({ model }) => model)).toEqual([
    chain.model,
    chain.model,
    "claude-haiku-4-5",
  ]);
  const [, sameModel = 0, nextModel = 0] = expected;
  // By the price of the dearest model of the chain: 3 USD a million tokens, 0.3 from the cache.
  expect(nextModel - sameModel).toBeCloseTo((CACHED * (3 - 0.3)) / 1e6, 9);
});
