/**
 * The cost of a run's calls. The usage that the provider reports counts. It is estimated if this side cut the call off before
 * the report, or if the report has no prompt or no output: so a limit on tokens holds with every provider. A refused call
 * costs nothing. A cost that no commit can include any more is booked with `charge`, once, under the id by which Redis knows
 * the call; so is a cost that Redis has forgotten in a failover.
 *
 * Budgets that bind the run are reserved when the provider lets a call through, and settled after it: a call that waits for
 * its provider takes nothing from others. A run without budgets makes no request for them. Redis owns the spending
 * (`shared/redis/budget.ts`); `loop/caps.ts` decides how a run ends whose budget has none left.
 */
import { messageOf } from "../../shared/errors.ts";
import {
  addUsage,
  promptTokens,
  totalTokens,
  type Usage,
  ZERO_USAGE,
} from "../../shared/protocol/content.ts";
import { costUsd, priceOf, undatedId } from "../../shared/protocol/usage.ts";
import { budgetsOf } from "../../shared/redis/budget.ts";
import { newNotice, paidIn } from "../loop/log.ts";
import type { CallStep } from "../loop/next.ts";
import { tokensIn } from "../loop/tokens.ts";
import type { CallOutcome, ModelRequest } from "../model/model.ts";
import type { RunContext } from "./context.ts";
import { summedUpBy } from "./purchase.ts";
import type { Session } from "./session.ts";

/** Parts of a run's context that booking a cost needs. */
type Booking = Pick<RunContext, "store" | "logger">;

/** Returns the USD for the usage of the current or last call, by the price of the requested model; 0 if that is unknown. */
export function costOf({ prices }: RunContext, { model }: Session, usage: Usage): number {
  const price = priceOf(model, prices);
  return price ? costUsd(usage, price) : 0;
}

/** Returns the USD for the usage of one call by the dearest model of the run's chain. */
function dearestCostOf({ prices }: RunContext, { equipment }: Session, usage: Usage): number {
  const costs = equipment.models.map((model) => {
    const price = priceOf(model, prices);
    return price ? costUsd(usage, price) : 0;
  });
  return Math.max(0, ...costs);
}

/**
 * Returns `outcome`, with an estimate if a bought call has no report of its tokens. Either this side cut it off, or it broke
 * off after the answer had begun, or its answer says nothing of its prompt or of its output. A refused call is not bought.
 */
export function withUsage(outcome: CallOutcome, session: Session, request: ModelRequest): CallOutcome {
  if (outcome.status === "answer") return withBill(outcome, session, request);
  if (outcome.usage && promptTokens(outcome.usage) > 0) return outcome;
  const isBought = outcome.usage !== undefined || isCutOffHere(outcome);
  const output_tokens = outcome.usage?.output_tokens ?? 0;
  return isBought ? { ...outcome, usage: { ...promptOf(session, request), output_tokens } } : outcome;
}

/** Returns true if this side ended the call: it was stopped, or took too long. With an HTTP status, the other side says so. */
function isCutOffHere(outcome: Exclude<CallOutcome, { status: "answer" }>): boolean {
  return (
    outcome.status === "aborted" ||
    (outcome.failure.kind === "timeout" && outcome.failure.httpStatus === undefined)
  );
}

/** Adds an estimate of the tokens that an answer does not report: some providers count none, and limits must hold for them too. */
function withBill(
  outcome: Extract<CallOutcome, { status: "answer" }>,
  session: Session,
  request: ModelRequest,
): CallOutcome {
  const { answer } = outcome;
  const { usage, content, contentJson } = answer;
  const hasPrompt = promptTokens(usage) > 0;
  if (hasPrompt && (usage.output_tokens > 0 || content.length === 0)) return outcome;
  const output_tokens = usage.output_tokens || Math.ceil(tokensIn(contentJson));
  const prompt = hasPrompt ? usage : promptOf(session, request);
  return { status: "answer", answer: { ...answer, usage: { ...prompt, output_tokens } } };
}

/**
 * Estimates the tokens of a prompt. If it continues that of the previous call, those tokens are known; the rest is estimated
 * from its bytes and images. Cached are the tokens that the previous call read from the cache or wrote to it, if the same model
 * is asked again: another one, and a provider without a cache, has its full price.
 */
function promptOf(
  session: Session,
  { head, messages, cachedLength }: Pick<ModelRequest, "head" | "messages" | "cachedLength">,
): Usage {
  const last = cachedLength > 0 ? session.state.last?.usage : undefined;
  if (!last) return { ...ZERO_USAGE, input_tokens: Math.ceil(tokensIn(head) + tokensIn(messages)) };
  const input_tokens = Math.ceil(last.input_tokens + tokensIn(messages.slice(cachedLength)));
  const cached = last.cache_read_input_tokens + last.cache_creation_input_tokens;
  return session.model === lastModelOf(session)
    ? { ...ZERO_USAGE, input_tokens, cache_read_input_tokens: cached }
    : { ...ZERO_USAGE, input_tokens: input_tokens + cached };
}

/** Returns the model of the chain that gave the run's last answer; the current one if there is none, or it is of no known model. */
function lastModelOf({ state, equipment, model }: Session): string {
  const { model: answered } = state.tally;
  if (answered === undefined) return model;
  return equipment.models.find((each) => undatedId(each) === undatedId(answered)) ?? model;
}

/**
 * Books costs that the run did not commit, as far as this side knows, and committed ones that Redis has forgotten. `isLast`:
 * the run is settled with its earlier progress, also if a commit arrived whose answer was lost. Never rejects: a cost that
 * cannot be booked is logged.
 */
export async function chargeUnbooked(context: Booking, session: Session, isLast: boolean): Promise<void> {
  let [usage, cost] = [ZERO_USAGE, 0];
  for (const { entry } of session.unbooked) {
    const paid = paidIn(entry);
    if (paid) [usage, cost] = [addUsage(usage, paid.usage), cost + paid.costUsd];
  }
  const by = isLast ? undefined : session.unbooked[0];
  if (usage !== ZERO_USAGE)
    await charge(context, session, session.purchase.id, { usage, cost, key: by?.key, entry: by?.json });
  if (!isLast) await chargeForgotten(context, session);
}

/** Books forgotten costs, newest first, up to the first entry that still exists: a failover loses the newest entries. */
async function chargeForgotten(context: Booking, session: Session): Promise<void> {
  const charged = new Set(session.unbooked.length > 0 ? [session.purchase.id] : []);
  for (const { id, key, head, usage, costUsd: cost } of session.purchase.booked.toReversed()) {
    // All tries of one call share its id, and the next holder may have charged one of them under it. So the newest is charged
    // under the id, and each earlier one under a name of its own.
    const name = charged.has(id) ? `${id}/${key}` : id;
    charged.add(id);
    const status = await charge(context, session, name, { usage, cost, key, head });
    if (status !== "charged" && status !== "same") return;
  }
}

/**
 * Books the prompt of purchase `name`, a call that an earlier holder began and did not commit; metrics count it if no other
 * worker has booked it. Never rejects.
 */
export async function chargeLostCall(context: RunContext, session: Session, name: string): Promise<void> {
  const { state, equipment, address } = session;
  const said = state.conversation.messagesOf({ compactBefore: summedUpBy(name) });
  // No run calls before its first message: a lost call had what the log lacks still.
  const unread = state.isBegun ? "" : JSON.stringify(state.unread.map(({ text }) => text));
  // It was probably asked again.
  session.model = lastModelOf(session);
  const { messages, cachedLength } = said;
  const usage = promptOf(session, { head: equipment.requestHead, messages: messages + unread, cachedLength });
  const cost = costOf(context, session, usage);
  const status = await charge(context, session, `${address.uid}.${name}`, { usage, cost });
  if (status === "charged") equipment.observer.lostCallCharged(session.model, usage, cost);
}

/** A cost to book, and the `key` of its entry. `entry`: an uncommitted entry; `head`: the beginning of a committed one. */
interface Charge {
  usage: Usage;
  cost: number;
  key?: string | undefined;
  entry?: string | undefined;
  head?: string;
}

/** Charges a cost; resolves to Redis' answer, or undefined if there was none, which is logged. */
async function charge(
  { store, logger }: Booking,
  { address }: Session,
  purchase_id: string,
  { usage, cost: cost_usd, key: entry_key, entry, head }: Charge,
) {
  const bought = { usage, cost_usd };
  try {
    return (await store.charge(address, { purchase_id, bought, entry_key, entry, head })).status;
  } catch (error) {
    logger.warn(
      { uid: address.uid, usage, cost_usd, problem: messageOf(error) },
      "A call that was paid for could not be booked",
    );
    return undefined;
  }
}

/** The model is told when this share of a budget is used. */
const NUDGE_SHARE = 0.8;
const NUDGE =
  "Most of the budget for this work is used. Finish what matters most, then answer with what you have found.";
/** Expected output tokens of a run's first answer. */
const FIRST_OUTPUT_TOKENS = 500;

/**
 * Reserves the call of `step`; false if a budget has no room. The final call may go beyond a budget, but only with results to
 * report, and only once: if its answer cannot be used, `failure.ts` ends the run. Nudges the model at 80 %.
 */
export async function reserveCall(context: RunContext, session: Session, step: CallStep): Promise<boolean> {
  const { budgets } = session.record.spec;
  if (!budgets) return true;
  const { state, equipment, address } = session;
  const request = { head: equipment.requestHead, ...state.conversation.messagesOf(step) };
  const output_tokens = state.last?.usage.output_tokens ?? FIRST_OUTPUT_TOKENS;
  const expected = { ...promptOf(session, request), output_tokens };
  const amount = { tokens: totalTokens(expected), costUsd: dearestCostOf(context, session, expected) };
  const isFinalCall = step.finalCall !== undefined;
  const bound = budgetsOf(address, budgets);
  const isForced = isFinalCall && state.turns > 0;
  const answer = await context.budgets.reserve(
    bound,
    session.purchase.beginReservation(step),
    amount,
    isForced,
  );
  if (answer.status === "refused") {
    const { over, budget } = answer;
    state.overBudget = { cap: over, of: budget.of };
    context.logger.info(
      { uid: address.uid, agent_id: session.record.agent_id, budget: budget.name, over },
      "Budget used up",
    );
    return false;
  }
  session.isBeyondBudget = isForced && answer.used >= 1;
  const isTold = session.isToldOfBudget || state.noticedAtMessage === state.userMessageNumber;
  if (answer.used >= NUDGE_SHARE && !isFinalCall && !isTold) {
    session.isToldOfBudget = true;
    session.add([newNotice(state.userMessageNumber, NUDGE)], false);
  }
  return true;
}

/** Settles the last reservation; no `usage`: the call was not made, or cost nothing. If it fails, the estimate stays. */
export function settleReservation(context: RunContext, session: Session, usage: Usage = ZERO_USAGE): void {
  const { budgets } = session.record.spec;
  if (!budgets) return;
  if (usage === ZERO_USAGE) session.isBeyondBudget = false;
  const amount = { tokens: totalTokens(usage), costUsd: costOf(context, session, usage) };
  const { reservation } = session.purchase;
  context.budgets.settle(budgetsOf(session.address, budgets), reservation, amount).catch((error: unknown) => {
    context.logger.warn(
      { uid: session.address.uid, problem: messageOf(error) },
      "A call's budget was not settled",
    );
  });
}
