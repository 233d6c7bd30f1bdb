/**
 * What the calls of a run cost. The provider's own word counts where there is one. Where this side cut a call off before that,
 * or what the provider began to answer says nothing of what the prompt came to, that is estimated: a limit that counts tokens
 * holds with every provider. A call that was refused costs nothing. What no commit can take along any more is booked with
 * `charge`, once, under the id by which Redis knows the call; so is what Redis has forgotten again in a failover.
 *
 * Budgets that bind the run are reserved when the provider lets a call through, and settled behind it: a call that waits for its
 * provider takes nothing from others. A run without budgets makes no trip for them. Redis owns what is spent
 * (`shared/redis/budget.ts`); `loop/caps.ts` says what a run does whose budget has none left.
 */
import { messageOf } from "../../shared/errors.ts";
import {
  addUsage,
  promptTokens,
  totalTokens,
  type Usage,
  ZERO_USAGE,
} from "../../shared/protocol/content.ts";
import { costUsd, priceOf } from "../../shared/protocol/usage.ts";
import { budgetsOf } from "../../shared/redis/budget.ts";
import { newNotice, paidIn } from "../loop/log.ts";
import type { CallStep } from "../loop/next.ts";
import type { CallOutcome, ModelRequest } from "../model/model.ts";
import type { RunContext } from "./context.ts";
import { summedUpBy } from "./purchase.ts";
import type { Session } from "./session.ts";

/** What booking a cost needs of a run's context. */
type Booking = Pick<RunContext, "store" | "logger">;

/** A destroyed run's answer that comes this soon is waited for, ms: then its price is known and not estimated. */
export const BILL_GRACE_MS = 250;
/** Bytes of JSON that make a token, about. */
const BYTES_PER_TOKEN = 4;
/** Tokens that an image counts for: its bytes say nothing of them, and providers make large ones smaller. */
const TOKENS_PER_IMAGE = 5_000;
/** How an image stands in a request, up to its bytes. No JSON string holds that: its quotes would be escaped there. */
const IMAGE = /\{"type":"image","source":\{"type":"base64","media_type":"image\/[a-z]{1,8}","data":"/g;
const IMAGE_END = '"}}';

/** USD for the usage of the call made now, or made last, by the price of the model that was asked; 0 where that is unknown. */
export function costOf({ prices }: RunContext, { model }: Session, usage: Usage): number {
  const price = priceOf(model, prices);
  return price ? costUsd(usage, price) : 0;
}

/** USD for the usage of one call of this run by the dearest model of its chain that may still answer. */
function dearestCostOf({ prices }: RunContext, { equipment }: Session, usage: Usage): number {
  const costs = equipment.models.map((model) => {
    const price = priceOf(model, prices);
    return price ? costUsd(usage, price) : 0;
  });
  return Math.max(0, ...costs);
}

/**
 * `outcome` with an estimate where a call was bought and its provider did not say what the prompt came to: this side cut it off, it
 * broke off after it had begun to be answered, or its answer is without a bill. A call that was refused is not bought.
 */
export function withUsage(outcome: CallOutcome, session: Session, request: ModelRequest): CallOutcome {
  if (outcome.status === "answer") return withBill(outcome, session, request);
  if (outcome.usage && promptTokens(outcome.usage) > 0) return outcome;
  const isBought = outcome.usage !== undefined || isCutOffHere(outcome);
  const output_tokens = outcome.usage?.output_tokens ?? 0;
  return isBought ? { ...outcome, usage: { ...promptOf(session, request), output_tokens } } : outcome;
}

/** Whether this side ended the call: it was stopped, or took too long. Where there is a status, the other side refused it. */
function isCutOffHere(outcome: Exclude<CallOutcome, { status: "answer" }>): boolean {
  return (
    outcome.status === "aborted" ||
    (outcome.failure.kind === "timeout" && outcome.failure.httpStatus === undefined)
  );
}

/** No prompt is without tokens: some that speak the protocol of the provider count none, and limits hold with them as well. */
function withBill(
  outcome: Extract<CallOutcome, { status: "answer" }>,
  session: Session,
  request: ModelRequest,
): CallOutcome {
  const { answer } = outcome;
  if (promptTokens(answer.usage) > 0) return outcome;
  const output_tokens = answer.usage.output_tokens || Math.ceil(tokensIn(answer.contentJson));
  return { status: "answer", answer: { ...answer, usage: { ...promptOf(session, request), output_tokens } } };
}

/**
 * The tokens of a prompt: where it goes on from the previous call's, these are known, and were cached; the rest is counted by its
 * bytes and its images.
 */
function promptOf(
  { state }: Session,
  { head, messages, cachedLength }: Pick<ModelRequest, "head" | "messages" | "cachedLength">,
): Usage {
  const last = cachedLength > 0 ? state.last : undefined;
  const before = last
    ? last.usage.input_tokens + last.usage.cache_read_input_tokens + last.usage.cache_creation_input_tokens
    : 0;
  const tokens = last ? tokensIn(messages.slice(cachedLength)) : tokensIn(head) + tokensIn(messages);
  return { ...ZERO_USAGE, input_tokens: Math.ceil(tokens), cache_read_input_tokens: before };
}

function tokensIn(json: string): number {
  let [bytes, images, from] = [0, 0, 0];
  for (const { index, 0: begin } of json.matchAll(IMAGE)) {
    // Base64 has no quote, so no image begins within another.
    const end = json.indexOf('"', index + begin.length);
    if (!json.startsWith(IMAGE_END, end)) continue;
    bytes += Buffer.byteLength(json.slice(from, index));
    images += 1;
    from = end + IMAGE_END.length;
  }
  bytes += Buffer.byteLength(json.slice(from));
  return bytes / BYTES_PER_TOKEN + images * TOKENS_PER_IMAGE;
}

/**
 * Books what the run paid for and did not commit, as far as this side knows, and what it committed and Redis has forgotten;
 * `isLast`: the run is settled with what it had come to before, also where a commit arrived of which only the answer was lost.
 * Never rejects: what cannot be booked is logged.
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

/** A log loses its newest entries first: what stands before one that is still there does so as well. */
async function chargeForgotten(context: Booking, session: Session): Promise<void> {
  const charged = new Set(session.unbooked.length > 0 ? [session.purchase.id] : []);
  for (const { id, key, head, usage, costUsd: cost } of session.purchase.booked.toReversed()) {
    // All tries of one call have the same id. The last try is charged under it, for the next holder may have charged one call so.
    const name = charged.has(id) ? `${id}/${key}` : id;
    charged.add(id);
    const status = await charge(context, session, name, { usage, cost, key, head });
    if (status !== "charged" && status !== "same") return;
  }
}

/** Books the prompt of the call of purchase `name`, which an earlier holder began and did not live to commit. Never rejects. */
export async function chargeLostCall(context: RunContext, session: Session, name: string): Promise<void> {
  const { state, equipment, address } = session;
  const messages = state.conversation.messagesOf({ compactBefore: summedUpBy(name) });
  const usage = promptOf(session, { head: equipment.requestHead, ...messages });
  const cost = costOf(context, session, usage);
  await charge(context, session, `${address.uid}.${name}`, { usage, cost });
}

/** What is booked, and the `key` of its entry; `entry`: one that was to be committed, `head`: how one begins that was. */
interface Charge {
  usage: Usage;
  cost: number;
  key?: string | undefined;
  entry?: string | undefined;
  head?: string;
}

/** What Redis said; undefined: nothing, and that is logged. */
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

/** From this share of a budget on the model is told. */
const NUDGE_SHARE = 0.8;
const NUDGE =
  "Most of the budget for this work is used. Finish what matters most, then answer with what you have found.";
/** Output tokens of an answer of which none of its run is known. */
const FIRST_OUTPUT_TOKENS = 500;

/** Whether every budget has room for the call of `step`; the final call of a run always has. Nudges the model at 80 %. */
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
  const answer = await context.budgets.reserve(bound, session.purchase.idOf(step), amount, isFinalCall);
  if (answer.status === "refused") {
    state.overBudget = answer.over;
    return false;
  }
  const isTold = session.isToldOfBudget || state.noticedAtMessage === state.userMessageNumber;
  if (answer.used >= NUDGE_SHARE && !isFinalCall && !isTold) {
    session.isToldOfBudget = true;
    session.add([newNotice(state.userMessageNumber, NUDGE)], false);
  }
  return true;
}

/** What the call of `step` used; undefined: it was not made, or cost nothing. A failure leaves the estimate spent. */
export function settleReservation(
  context: RunContext,
  session: Session,
  step: CallStep,
  usage: Usage = ZERO_USAGE,
): void {
  const { budgets } = session.record.spec;
  if (!budgets) return;
  const amount = { tokens: totalTokens(usage), costUsd: costOf(context, session, usage) };
  const id = session.purchase.idOf(step);
  context.budgets.settle(budgetsOf(session.address, budgets), id, amount).catch((error: unknown) => {
    context.logger.warn(
      { uid: session.address.uid, problem: messageOf(error) },
      "A call's budget was not settled",
    );
  });
}
