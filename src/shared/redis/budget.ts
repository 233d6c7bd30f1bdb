/**
 * Budgets in Redis: the spending of each, calls under way included. Owns the state; `protocol/limits.ts` tells which budgets
 * bind an agent.
 *
 * 1. A call counts from its reservation on, at its estimate; settling replaces the estimate by the real cost.
 * 2. A reservation that is never settled stays spent: its worker crashed, and the call was paid for. Nothing else is kept of
 *    it after {@link RESERVATION_MS}; a settling that comes later changes nothing.
 * 3. Each budget is exact by itself, across all workers; if several bind an agent, all must grant.
 * 4. A reservation and its settling cost Redis the same however many calls are under way: all share its slot.
 */
import { SubagentError, unlessMistyped } from "../errors.ts";
import type { AgentAddress, Keys } from "../protocol/keys.ts";
import { type Budgets, TIMING, type Timing } from "../protocol/limits.ts";
import type { RedisClient } from "./connection/connection.ts";
import { loadScripts } from "./scripts.ts";

/** One budget that binds an agent: its name, whom it binds, and its limits. Without a window it never refills. */
export interface BoundBudget {
  name: string;
  of: keyof Budgets;
  maxTokens?: number | undefined;
  maxMicroUsd?: number | undefined;
  windowMs?: number | undefined;
}

const MICRO = 1_000_000;
const NOTHING: Amount = { tokens: 0, costUsd: 0 };

/** Returns the budgets that bind the agent at `address`. */
export function budgetsOf(
  { tenant, parentId, uid }: AgentAddress,
  { agent, parent, tenant: ofTenant }: Budgets,
): BoundBudget[] {
  const bound: BoundBudget[] = [];
  const bind = (
    of: keyof Budgets,
    name: string,
    caps: (Budgets["agent"] & { window_ms?: number }) | undefined,
  ) => {
    if (!caps) return;
    const { max_total_tokens: maxTokens, max_cost_usd: maxUsd, window_ms: windowMs } = caps;
    const maxMicroUsd = maxUsd && Math.round(maxUsd * MICRO);
    bound.push({ name, of, maxTokens, maxMicroUsd, windowMs });
  };
  bind("agent", `agent/${tenant}/${parentId}/${uid}`, agent);
  bind("parent", `parent/${tenant}/${parentId}`, parent);
  // Slices of one window have no meaning in another, so a changed window has a new key.
  bind("tenant", `tenant/${tenant}/${ofTenant?.window_ms}`, ofTenant);
  return bound;
}

/** Amount that a call takes from a budget. */
export interface Amount {
  tokens: number;
  costUsd: number;
}

/**
 * `used`: the greatest used share of a budget including this call, 0 to 1 and more. `over`: the cap of `budget` that
 * has no room.
 */
export type ReservationAnswer =
  | { status: "granted"; used: number }
  | { status: "refused"; over: "max_total_tokens" | "max_cost"; budget: BoundBudget };

/** See the module's header. */
export interface BudgetBook {
  /**
   * Reserves `amount` in all `budgets` for one try of a purchase; `isForced`: also beyond their caps. Repeating it under the
   * same id changes nothing.
   */
  reserve(
    budgets: readonly BoundBudget[],
    purchaseId: string,
    amount: Amount,
    isForced: boolean,
  ): Promise<ReservationAnswer>;
  /** Replaces the reservation by the real amount. Only the first call counts. */
  settle(budgets: readonly BoundBudget[], purchaseId: string, amount: Amount): Promise<void>;
}

const PER_MILLE = 1_000;

/** Returns the book on `redis`. */
export function createBudgetBook(redis: RedisClient, keys: Keys, timing: Timing): BudgetBook {
  const scripts = loadScripts(redis, keys, timing);
  const taken = ({ tokens, costUsd }: Amount) => ({ tokens, micro_usd: costUsd * MICRO });
  const settle: BudgetBook["settle"] = async (budgets, purchase_id, amount) => {
    await Promise.all(
      budgets.map(({ name }) =>
        scripts.run("budget-settle", undefined, { name, purchase_id, ...taken(amount) }),
      ),
    );
  };
  return {
    settle,
    async reserve(budgets, purchase_id, amount, forced) {
      const asked = Promise.all(
        budgets.map(({ name, maxTokens, maxMicroUsd, windowMs, of }) =>
          scripts.run("budget-reserve", undefined, {
            name,
            purchase_id,
            of_agent: of === "agent",
            ...taken(amount),
            max_tokens: maxTokens,
            max_micro_usd: maxMicroUsd,
            window_ms: windowMs,
            forced,
          }),
        ),
      );
      // If one budget cannot be asked, the reservations in the others are returned.
      asked.catch(() => settle(budgets, purchase_id, NOTHING).catch(() => {}));
      const answers = await asked;
      for (const [i, budget] of budgets.entries()) {
        const answer = answers[i];
        if (answer?.status !== "refused") continue;
        await settle(budgets, purchase_id, NOTHING);
        return { ...answer, budget };
      }
      const used = answers.map((answer) => (answer.status === "granted" ? answer.used_permille : 0));
      return { status: "granted", used: Math.max(0, ...used) / PER_MILLE };
    },
  };
}

/** Reads the spending of a budget in its window; calls under way count at their estimate. Changes nothing. */
export async function readSpent(
  redis: RedisClient,
  keys: Keys,
  { name, windowMs: window_ms }: BoundBudget,
): Promise<Amount> {
  const used = await loadScripts(redis, keys, TIMING).run("budget-usage", undefined, { name, window_ms });
  return { tokens: used.tokens, costUsd: used.micro_usd / MICRO };
}

/**
 * Reads the used share of a budget; infinite if it holds a number that no version writes, because no call passes it then. 0
 * if its key has the wrong type.
 */
export async function readUsedShare(redis: RedisClient, keys: Keys, bound: BoundBudget): Promise<number> {
  try {
    return usedShare(bound, await unlessMistyped(readSpent(redis, keys, bound), { tokens: 0, costUsd: 0 }));
  } catch (error) {
    if (error instanceof SubagentError && error.code === "protocol_violation")
      return Number.POSITIVE_INFINITY;
    throw error;
  }
}

/** Returns the used share of a budget, of tokens or of money, whichever is greater; 0 if neither is capped. */
function usedShare({ maxTokens, maxMicroUsd }: BoundBudget, { tokens, costUsd }: Amount): number {
  const shares = [maxTokens && tokens / maxTokens, maxMicroUsd && (costUsd * MICRO) / maxMicroUsd];
  return Math.max(0, ...shares.map((share) => share ?? 0));
}
