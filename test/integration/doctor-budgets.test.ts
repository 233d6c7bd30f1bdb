/** Guarantee: the doctor names each nearly used budget once, by whom it binds, with its most used cap. */
import { expect, test } from "vitest";
import { budgetsOf, createBudgetBook } from "../../src/shared/redis/budget.ts";
import { doctorFor } from "../helpers/doctor.ts";
import { type Agent, openStage, SHORT_TIMING, type Stage } from "../stage/stage.ts";

type Budgets = Parameters<typeof budgetsOf>[1];
const NOTHING = { tokens: 0, costUsd: 0 };

/** A stage whose agents spend from their budgets. */
async function spendingStage() {
  const stage: Stage = await openStage({ timing: SHORT_TIMING });
  const book = createBudgetBook(stage.redis, stage.keys, SHORT_TIMING);
  const spend = async (agent: Agent, budgets: Budgets, id: string, spent: Partial<typeof NOTHING>) => {
    await book.reserve(budgetsOf(agent, budgets), id, { ...NOTHING, ...spent }, true);
  };
  return { ...stage, spend, doctor: await doctorFor(stage) };
}

test("the budgets of a parent and of a tenant are named as theirs, each once", async () => {
  const { spend, doctor, ...stage } = await spendingStage();
  const budgets = {
    parent: { max_total_tokens: 1_000 },
    tenant: { max_cost_usd: 2, window_ms: 3_600_000 },
  };
  const agents = [await stage.spawn({ budgets }), await stage.spawn({ budgets })];
  for (const [n, agent] of agents.entries())
    await spend(agent, budgets, `p${n}`, { tokens: 450, costUsd: 0.9 });
  const { budgets: found } = await doctor.findings();
  expect(found?.names.toSorted()).toEqual(["parent parent-0 (90 %)", "tenant default (90 %)"]);
});

test("of several caps of one budget the most used one counts, and an ended agent's counts no more", async () => {
  const { spend, doctor, ...stage } = await spendingStage();
  const windowed = { window_ms: 3_600_000 };
  // One of the two is read first, whichever it is.
  const each: Budgets[] = [
    { parent: { max_total_tokens: 1_000 }, tenant: { max_total_tokens: 100_000, ...windowed } },
    { parent: { max_total_tokens: 100_000 }, tenant: { max_total_tokens: 1_000, ...windowed } },
  ];
  const agents: Agent[] = [];
  for (const budgets of each) {
    const agent = await stage.spawn({ budgets });
    agents.push(agent);
    await spend(agent, budgets, agent.uid, { tokens: 450 });
  }
  const { budgets: found } = await doctor.findings();
  expect(found?.names.toSorted()).toEqual(["parent parent-0 (90 %)", "tenant default (90 %)"]);
  for (const agent of agents) await stage.destroy(agent);
  expect(await doctor.findings()).not.toHaveProperty("budgets");
});
