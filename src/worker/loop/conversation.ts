/** The conversation as the model gets it, derived from the log: the same log gives the same bytes. */
import type { ContentBlock } from "../../shared/protocol/content.ts";
import type { PartialReason, StopReason } from "../../shared/protocol/reply.ts";
import type { ModelMessage } from "../model/model.ts";
import type { Log } from "./log.ts";
import { REPETITION_LIMIT, REPETITION_NOTICE, repetitionCounter } from "./repetition.ts";
import { isNudged, type Turn, turnOf, viewRun } from "./run-view.ts";
import { type SentBack, sendBack } from "./send-back.ts";

const NUDGE = "Your last message was empty. Write your final answer now, as text.";
const REPEATED = `You have made the same tool call ${REPETITION_NOTICE} times in a row. Do something else, or write your final answer.`;
/** The result of the call that completes a forbidden repetition. */
export const REPETITION_REFUSED = `Not executed: this is the same call for the ${REPETITION_LIMIT}th time in a row.`;

const HAND_BACK: Record<PartialReason, string> & Partial<Record<StopReason, string>> = {
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
export function handBackPrompt(cause: StopReason): string {
  return `${HAND_BACK[cause] ?? HAND_BACK.max_turns} Do not call any more tools. Report what you have found and done so far, and say plainly what is missing.`;
}

/** The model's last answer, what goes back of it, and whether it holds the call at which the model is told. */
interface Answer extends SentBack {
  turn: Turn;
  repeats: boolean;
}

/**
 * The messages of the next call; `handBack` makes it the last one. Roles alternate, no content is empty, every
 * `tool_use` has its result in the next message. Within a run, what an answered call sent is the beginning of what
 * the next one sends.
 */
export function conversation(log: Log, handBack?: PartialReason): ModelMessage[] {
  const { deliveries, turns } = log.entries;
  const messages: ModelMessage[] = [];
  const usedIds = new Set<string>();
  const end = viewRun(log).userMessage;
  let run: number | undefined;
  let count = repetitionCounter();
  let last: Answer | undefined;
  for (let n = 0; n <= end; n += 2) {
    const delivery = deliveries.get(n);
    const startsRun = delivery !== undefined && delivery.run !== run;
    if (startsRun) {
      run = delivery.run;
      count = repetitionCounter();
    }
    const entry = n < end ? turns.get(n + 1) : undefined;
    // A message that a run begins with, or that no answer came to, has nothing to say about the last answer.
    const remarksOn = !startsRun && (n === end || entry) ? last : undefined;
    const said = words(log, n, remarksOn, n === end ? handBack : entry?.hand_back);
    add(messages, "user", [...(last?.results ?? []), ...textBlocks(said)]);
    last = undefined;
    if (!entry) continue;
    const turn = turnOf(log, n + 1, entry);
    const repeats = turn.calls.map(count).includes(REPETITION_NOTICE);
    last = { ...sendBack(turn, usedIds), turn, repeats };
    add(messages, "assistant", last.content);
  }
  return messages;
}

/** What user message `n` says besides tool results. */
function words(log: Log, n: number, last: Answer | undefined, handBack: StopReason | undefined): string[] {
  const { notices, deliveries } = log.entries;
  const said = [notices.get(n)?.text ?? ""];
  if (last?.repeats) said.push(REPEATED);
  for (const message of deliveries.get(n)?.messages ?? []) said.push(message.text);
  if (last && !handBack && isNudged(log, last.turn)) said.push(NUDGE);
  if (handBack) said.push(handBackPrompt(handBack));
  return said;
}

/** The API refuses blank text. */
function textBlocks(texts: readonly string[]): ContentBlock[] {
  return texts.filter((text) => text.trim() !== "").map((text) => ({ type: "text", text }));
}

/** Appends a message; one of the same role as the last (after a pause, or an answer of which nothing is sent) joins it. */
function add(messages: ModelMessage[], role: ModelMessage["role"], content: ContentBlock[]): void {
  const last = messages.at(-1);
  if (content.length === 0) return;
  if (last?.role === role) last.content = [...last.content, ...content];
  else messages.push({ role, content });
}
