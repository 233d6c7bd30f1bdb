/** Budgets: how much an agent, a parent or a tenant may spend on model calls. Reserved before a call, settled after it. */
import { z } from "zod";
import { CEILING } from "./limits.ts";

const HOUR_MS = 3_600_000;
const MAX_WINDOW_MS = 30 * 24 * HOUR_MS;

const caps = {
  max_total_tokens: z.int().min(1).max(CEILING.max_total_tokens).optional(),
  max_cost_usd: z.number().positive().max(CEILING.max_cost_usd).optional(),
};
const budget = z
  .strictObject(caps)
  .refine((wish) => Object.values(wish).some(Boolean), "name max_total_tokens, max_cost_usd or both");
const rolling = z
  .strictObject({ ...caps, window_ms: z.int().min(1_000).max(MAX_WINDOW_MS) })
  .refine(
    (wish) => wish.max_total_tokens !== undefined || wish.max_cost_usd !== undefined,
    "name max_total_tokens, max_cost_usd or both",
  );

/**
 * Budgets by whom they bind: `agent`: one agent, over all its runs; `parent`: all agents of a parent, as long as a call of
 * theirs is younger than 30 days; `tenant`: all agents of all its parents, in any `window_ms` (1 s to 30 days).
 */
export const Budgets = z.strictObject({
  agent: budget.optional(),
  parent: budget.optional(),
  tenant: rolling.optional(),
});
/** See {@link Budgets}. */
export type Budgets = z.infer<typeof Budgets>;

/** The tighter of two: each cap the lower one, the operator's window. */
export function narrowedBudgets(operator: Budgets = {}, wished: Budgets = {}): Budgets {
  const least = (a?: number, b?: number) => (a === undefined ? b : Math.min(a, b ?? a));
  const both = (a: Budgets["agent"], b: Budgets["agent"]) => {
    const max_total_tokens = least(a?.max_total_tokens, b?.max_total_tokens);
    const max_cost_usd = least(a?.max_cost_usd, b?.max_cost_usd);
    return {
      ...(max_total_tokens !== undefined && { max_total_tokens }),
      ...(max_cost_usd !== undefined && { max_cost_usd }),
    };
  };
  const agent = both(operator.agent, wished.agent);
  const parent = both(operator.parent, wished.parent);
  return {
    ...(Object.keys(agent).length > 0 && { agent }),
    ...(Object.keys(parent).length > 0 && { parent }),
    ...(operator.tenant && { tenant: operator.tenant }),
  };
}
