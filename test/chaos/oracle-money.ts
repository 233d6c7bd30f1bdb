/** The oracle's part about money: compares the parents' reported usage with the model server's ledger. Pure. */
import { totalTokens } from "../../src/shared/protocol/content.ts";
import { costUsd, priceOf } from "../../src/shared/protocol/usage.ts";
import type { Evidence, Lookup, Violation } from "./evidence.ts";

/** The agents' model, which has a price. */
export const PRICED_MODEL = "claude-haiku-4-5";

/** Rounding error of one booking, USD. */
const ROUNDED_USD = 0.000001;
/** Tolerated factor between an estimated and the real prompt. */
const MISJUDGED = 2;

/**
 * Returns the violations in the usage. Every committed call must be counted exactly. For each takeover, and for each call without
 * an answer, the usage may be off by one call.
 */
export function judgeMoney({ ledger, load, spent }: Evidence, { claims }: Lookup): Violation[] {
  const violations: Violation[] = [];
  const complain = (broken: string, detail: string) => violations.push({ broken, detail });
  const used = spent.reduce((sum, { tokens }) => sum + tokens, 0);
  const told = load.seen.reduce((sum, { entry }) => sum + (entry.kind === "reply" ? entry.tokens : 0), 0);
  const calls = ledger.flatMap(({ usage }) => (usage ? [totalTokens(usage)] : []));
  const billed = calls.reduce((sum, tokens) => sum + tokens, 0);
  const takenOver = [...claims.values()].reduce((sum, { length }) => sum + length - 1, 0);
  const unbilled = ledger.filter(({ usage }) => !usage).length;
  const uncertain = (takenOver + unbilled) * Math.max(0, ...calls);
  const counts = `${used} tokens used, ${billed} billed for ${calls.length} calls, ${takenOver} takeovers, ${unbilled} calls without a bill`;
  if (used < told) complain("what replies tell was used", `${counts}, ${told} told`);
  if (used < billed - uncertain) complain("every purchase counts, to a call a takeover", counts);
  if (used > billed + MISJUDGED * uncertain) complain("nothing is charged that was not bought", counts);
  const price = priceOf(PRICED_MODEL);
  for (const { usage, cost_usd } of price ? spent : []) {
    const expected = price ? costUsd(usage, price) : 0;
    if (Math.abs(cost_usd - expected) > ROUNDED_USD * (ledger.length + 1))
      complain("the cost of what was used is its price", `${cost_usd} USD instead of ${expected}`);
  }
  return violations;
}

/** Returns the parents' usage minus the ledger's, in tokens; 0 if no call was cut off. */
export function bookedBeside({ ledger, spent }: Pick<Evidence, "ledger" | "spent">): number {
  const billed = ledger.reduce((sum, { usage }) => sum + (usage ? totalTokens(usage) : 0), 0);
  return spent.reduce((sum, { tokens }) => sum + tokens, 0) - billed;
}
