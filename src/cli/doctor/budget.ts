/** The budgets that bind live agents, and how much of each is used. */
import { AgentSpecJson } from "../../shared/protocol/agent.ts";
import type { AgentAddress } from "../../shared/protocol/keys.ts";
import { type Amount, type BoundBudget, budgetsOf, readSpent } from "../../shared/redis/budget.ts";
import { type AgentSight, isLive } from "../../shared/redis/inspection.ts";
import type { Installation } from "../../shared/redis/installation.ts";
import { agentName, type BudgetSight, type Facts, ownerName } from "./facts.ts";

/** The share of a budget at which a run is nudged. */
const NEARLY_USED = 0.8;
/** So many live agents are asked for their budgets. */
const MOST_AGENTS = 1_000;

/** The budgets of the first live agents, each once and at its tightest cap. */
export async function readBudgets(
  { redis, keys }: Pick<Installation, "redis" | "keys">,
  sights: readonly AgentSight[],
): Promise<BudgetSight[]> {
  const live = sights.filter(isLive).slice(0, MOST_AGENTS);
  const specs = await Promise.all(live.map(({ address }) => redis.hget(keys.agent(address).record, "spec")));
  const found = new Map<string, BudgetSight>();
  for (const [i, { address, record }] of live.entries()) {
    const { budgets } = AgentSpecJson.safeParse(specs[i]).data ?? {};
    for (const bound of budgets ? budgetsOf(address, budgets) : []) {
      const used = shareOf(bound, await readSpent(redis, keys, bound));
      const name = shownName(bound, address, record.agentId);
      if (used > (found.get(name)?.used ?? -1)) found.set(name, { name, used });
    }
  }
  return [...found.values()];
}

/** The greater share, of tokens or of money. */
function shareOf({ maxTokens, maxMicroUsd }: BoundBudget, { tokens, costUsd }: Amount): number {
  const shares = [maxTokens && tokens / maxTokens, maxMicroUsd && (costUsd * 1_000_000) / maxMicroUsd];
  return Math.max(0, ...shares.map((share) => share ?? 0));
}

function shownName({ name }: BoundBudget, address: AgentAddress, agentId: string): string {
  const [of] = name.split("/", 1);
  if (of === "tenant") return `tenant ${address.tenant}`;
  return of === "parent" ? `parent ${ownerName(address)}` : `agent ${agentName(address, agentId)}`;
}

/** The budgets that are nearly used, the one that is used most first. */
export function nearlyUsed({ budgets }: Facts): string[] {
  const most = budgets.filter(({ used }) => used >= NEARLY_USED).sort((a, b) => b.used - a.used);
  return most.map(({ name, used }) => `${name} (${Math.floor(used * 100)} %)`);
}
