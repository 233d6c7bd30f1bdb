/** The conversation as the model gets it, derived from the log: the same log gives the same bytes. */
import type { ContentBlock } from "../../shared/protocol/content.ts";
import type { PartialReason } from "../../shared/protocol/reply.ts";
import type { ModelMessage } from "../model/model.ts";
import type { Log } from "./log.ts";
import { isEmptyEnd } from "./next.ts";
import { REPETITION_LIMIT, REPETITION_NOTICE, repetitions } from "./repetition.ts";
import { type Turn, turnOf } from "./run-view.ts";

const NUDGE = "Your last message was empty. Write your final answer now, as text.";
const REPEATED = `You have made the same tool call ${REPETITION_NOTICE} times in a row and got the same result. Do something else, or write your final answer.`;
const NOT_EXECUTED = "Not executed: the answer that asked for this call was cut off or the run ended first.";
/** The result of the call that completes a forbidden repetition. */
export const REPETITION_REFUSED = `Not executed: this is the same call for the ${REPETITION_LIMIT}th time in a row.`;

const HAND_BACK: Record<PartialReason, string> = {
  max_turns: "This is your last turn.",
  max_tokens: "This is your last turn.",
  max_total_tokens: "The token budget of this task is used up.",
  max_cost: "The cost budget of this task is used up.",
  max_duration: "The time for this task is over.",
  context_window: "The conversation has become too long.",
  loop_detected: "You have repeated the same tool call without getting further.",
  invalid_output: "This is your last turn.",
  finished_by_parent: "You were asked to stop working and report.",
};

/** What the hand-back call adds to the conversation. */
export function handBackPrompt(cause: PartialReason): string {
  return `${HAND_BACK[cause]} Do not call any more tools. Report what you have found and done so far, and say plainly what is missing.`;
}

/** The messages of the next call; `handBack` makes it the last one. Every `tool_use` is followed by its result. */
export function conversation(log: Log, handBack?: PartialReason): ModelMessage[] {
  const messages: ModelMessage[] = [];
  const runTurns: Turn[] = [];
  const count = log.entries.turns.size;
  let previous: Turn | undefined;
  for (let k = 0; k <= count; k++) {
    const entry = log.entries.turns.get(2 * k + 1);
    if (log.entries.deliveries.get(2 * k)?.run !== undefined && startsRun(log, 2 * k)) runTurns.length = 0;
    const cause = k === count ? handBack : (entry?.hand_back as PartialReason | undefined);
    const content = userContent(log, 2 * k, previous, runTurns, cause);
    if (content.length > 0) messages.push({ role: "user", content });
    if (!entry) break;
    if (entry.content.length > 0) messages.push({ role: "assistant", content: entry.content });
    previous = turnOf(log, 2 * k + 1, entry);
    runTurns.push(previous);
  }
  return messages;
}

/** Whether the delivery at message `n` is the first of its run. */
function startsRun(log: Log, n: number): boolean {
  const run = log.entries.deliveries.get(n)?.run;
  for (const [other, delivery] of log.entries.deliveries) {
    if (delivery.run === run && other < n) return false;
  }
  return true;
}

/** User message `n`: tool results first, in the order of the calls, then what else there is to say. */
function userContent(
  log: Log,
  n: number,
  previous: Turn | undefined,
  runTurns: readonly Turn[],
  handBack: PartialReason | undefined,
): ContentBlock[] {
  const content: ContentBlock[] = (previous?.calls ?? []).map((call) => ({
    type: "tool_result",
    tool_use_id: call.id,
    content: call.result?.content ?? NOT_EXECUTED,
    ...((call.result?.is_error ?? true) && { is_error: true }),
  }));
  const say = (text: string) => content.push({ type: "text", text });
  const notice = log.entries.notices.get(n);
  if (notice) say(notice.text);
  const counts = repetitions(runTurns);
  if (previous?.calls.some((call) => counts.get(call) === REPETITION_NOTICE)) say(REPEATED);
  const delivery = log.entries.deliveries.get(n);
  for (const message of delivery?.messages ?? []) say(message.text);
  if (previous && isEmptyEnd(previous) && !delivery && !handBack) say(NUDGE);
  if (handBack) say(handBackPrompt(handBack));
  return content;
}
