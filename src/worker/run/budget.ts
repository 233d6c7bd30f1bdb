/**
 * The budgets that bind a run: reserved before each model call, settled behind it. A run without budgets makes no trip for
 * them. Redis owns what is spent (`shared/redis/budget.ts`); `loop/caps.ts` says what a run does without room.
 */
import { messageOf } from "../../shared/errors.ts";
import { totalTokens, type Usage, ZERO_USAGE } from "../../shared/protocol/content.ts";
import { budgetsOf } from "../../shared/redis/budget.ts";
import { newNotice } from "../loop/log.ts";
import type { Step } from "../loop/next.ts";
import { costOf, dearestCostOf, messagesOf, promptOf } from "./charge.ts";
import type { RunContext } from "./context.ts";
import type { Session } from "./session.ts";

type CallStep = Extract<Step, { do: "call_model" }>;

/** From this share of a budget on the model is told. */
const NUDGE_SHARE = 0.8;
const NUDGE =
  "Most of the budget for this work is used. Finish what matters most, then answer with what you have found.";
/** Output tokens of an answer of which none of its run is known. */
const FIRST_OUTPUT_TOKENS = 500;

/** Whether every budget has room for the call of `step`; the last call of a run always has. Nudges the model at 80 %. */
export async function reserveCall(context: RunContext, session: Session, step: CallStep): Promise<boolean> {
  const { budgets } = session.record.spec;
  if (!budgets) return true;
  const { state, equipment, address } = session;
  const request = { head: equipment.requestHead, ...messagesOf(session, step) };
  const output_tokens = state.last?.usage.output_tokens ?? FIRST_OUTPUT_TOKENS;
  const expected = { ...promptOf(session, request), output_tokens };
  const amount = { tokens: totalTokens(expected), costUsd: dearestCostOf(context, session, expected) };
  const isLast = step.handBack !== undefined;
  const bound = budgetsOf(address, budgets);
  const answer = await context.budgets.reserve(bound, session.purchaseId(step), amount, isLast);
  if (answer.status === "refused") {
    state.overBudget = answer.over;
    return false;
  }
  const isTold = session.isNudged || state.noticedAt === state.userMessage;
  if (answer.used >= NUDGE_SHARE && !isLast && !isTold) {
    session.isNudged = true;
    session.add([newNotice(state.userMessage, NUDGE)], false);
  }
  return true;
}

/** What the call of `step` used; undefined: it was not made, or cost nothing. A failure leaves the estimate spent. */
export function settleCall(
  context: RunContext,
  session: Session,
  step: CallStep,
  usage: Usage = ZERO_USAGE,
): void {
  const { budgets } = session.record.spec;
  if (!budgets) return;
  const amount = { tokens: totalTokens(usage), costUsd: costOf(context, session, usage) };
  const id = session.purchaseId(step);
  context.budgets.settle(budgetsOf(session.address, budgets), id, amount).catch((error: unknown) => {
    context.logger.warn(
      { uid: session.address.uid, problem: messageOf(error) },
      "A call's budget was not settled",
    );
  });
}
