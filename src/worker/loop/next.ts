/**
 * What happens next, as a pure and total function of the log. Running an agent is "perform, append, ask again";
 * resuming after a crash is asking again.
 */
import { entryKey } from "../../shared/protocol/log.ts";
import type { InboxMessage } from "../../shared/protocol/message.ts";
import { ASK_TOOL, type OpenQuestion, QuestionInput } from "../../shared/protocol/question.ts";
import type { PartialReason, StopReason } from "../../shared/protocol/reply.ts";
import { judgeCaps } from "./caps.ts";
import type { Log } from "./log.ts";
import { REPETITION_LIMIT, repetitions } from "./repetition.ts";
import { isNudged, type RunView, type ToolCall, type Turn, viewRun } from "./run-view.ts";
import type { Rules } from "./tally.ts";

/** How a call is answered: `run` performs it, the others only commit a result that says why not. */
export interface PlannedCall extends Pick<ToolCall, "id" | "name" | "input"> {
  how: "run" | "interrupted" | "repeated" | "unanswered";
}

/**
 * The next step. `deliver`: log the parent's messages as message `message`, consuming the inbox up to `consumeTo`;
 * `call_model`: buy message `message`, with `handBack` as the last call; `run_tools`: answer the open calls of message
 * `message`, all in parallel; `ask`: wait for the parent's answers to the calls that are left; `settle`: the run is over, `natural` when an unread message should keep it going.
 */
export type Step =
  | { do: "deliver"; message: number; messages: readonly InboxMessage[]; consumeTo: number }
  | { do: "call_model"; message: number; turn: number; handBack?: PartialReason }
  | { do: "run_tools"; message: number; turn: number; calls: PlannedCall[] }
  | { do: "ask"; turn: number; questions: OpenQuestion[] }
  | { do: "settle"; reason: StopReason; natural: boolean };

/** Decides the next step of the run `log.run` under `rules`. */
export function next(log: Log, rules: Rules): Step {
  const view = viewRun(log);
  const failure = log.entries.failures.get(view.userMessage + 1);
  if (failure) return end(failure.hand_back ?? failure.kind);
  const last = view.turns.at(-1);
  if (last?.entry.hand_back) return end(last.entry.hand_back);
  if (last && !view.delivered) return after(last, log, view, rules);
  return boundary(log, view, rules);
}

/** The model has answered and nothing was said to it since. Unknown stop reasons fail closed. */
function after(last: Turn, log: Log, view: RunView, rules: Rules): Step {
  switch (last.entry.stop_reason) {
    case "tool_use": {
      if (last.calls.length === 0) return end("model_error");
      return answerCalls(last, log, view, rules) ?? boundary(log, view, rules);
    }
    case "pause_turn":
      return boundary(log, view, rules);
    case "end_turn":
    case "stop_sequence":
      if (log.unread.length > 0) return oneMore(log, view, rules);
      if (isNudged(log, last) && !wasNudged(log, view)) return boundary(log, view, rules);
      return { do: "settle", reason: "end_turn", natural: true };
    case "max_tokens":
      return end("max_tokens");
    case "refusal":
      return end("refusal");
    case "model_context_window_exceeded":
      return end("context_window");
    default:
      return end("model_error");
  }
}

/** A natural end, but the parent has said more: the run goes on if it still may; else the message waits for the next. */
function oneMore(log: Log, view: RunView, rules: Rules): Step {
  return judgeCaps(log, view, rules).call === "none" ? end("end_turn") : boundary(log, view, rules);
}

/**
 * Between two model calls: what the caps allow, and before the call what the parent has said meanwhile. A run takes
 * its first message whatever the caps say: left in the inbox, it would start one run after the other.
 */
function boundary(log: Log, view: RunView, rules: Rules): Step {
  const unread = log.unread.length > 0 && !view.delivered;
  if (view.firstMessage === undefined) return unread ? deliver(log, view) : end("model_error");
  const verdict = judgeCaps(log, view, rules);
  if (verdict.call === "none") return end(verdict.cause);
  // A paused answer goes back unchanged: the parent's messages wait until the model has finished it.
  const paused = view.turns.at(-1)?.entry.stop_reason === "pause_turn" && verdict.call === "ordinary";
  if (unread && !paused) return deliver(log, view);
  const call = { do: "call_model", message: view.userMessage + 1, turn: view.turns.length + 1 } as const;
  return verdict.call === "hand_back" ? { ...call, handBack: verdict.cause } : call;
}

function deliver({ unread, inboxRead }: Log, { userMessage }: RunView): Step {
  return { do: "deliver", message: userMessage, messages: unread, consumeTo: inboxRead + unread.length };
}

/** Whether the last turn answers a nudge already: a second empty answer is final. */
function wasNudged(log: Log, view: RunView): boolean {
  const previous = view.turns.at(-2);
  return previous !== undefined && isNudged(log, previous);
}

/**
 * Questions come last: an agent that waits does nothing else. None is asked when no call may follow that would read the
 * answer.
 */
function answerCalls(last: Turn, log: Log, view: RunView, rules: Rules): Step | undefined {
  const counts = repetitions(view.turns);
  const turn = view.turns.length;
  const calls: PlannedCall[] = [];
  const questions: OpenQuestion[] = [];
  for (const call of last.calls) {
    if (call.result) continue;
    const isRepeated = (counts.get(call) ?? 0) >= REPETITION_LIMIT;
    const question = questionOf(call, last.message, rules);
    const how = question ? howToAsk(call, log, isRepeated) : howToPerform(call, rules, isRepeated);
    if (how !== "ask") calls.push({ id: call.id, name: call.name, input: call.input, how });
    else if (question) questions.push(question);
  }
  if (calls.length > 0) return { do: "run_tools", message: last.message, turn, calls };
  if (questions.length === 0 || judgeCaps(log, view, rules).call === "none") return undefined;
  return { do: "ask", turn, questions };
}

function howToPerform(call: ToolCall, rules: Rules, isRepeated: boolean): PlannedCall["how"] {
  if (call.started && !rules.idempotentTools.has(call.name)) return "interrupted";
  return isRepeated ? "repeated" : "run";
}

/** A question that was asked and is still without an answer when its agent goes on gets none. */
function howToAsk(call: ToolCall, log: Log, isRepeated: boolean): PlannedCall["how"] | "ask" {
  if (call.started || log.finish) return "unanswered";
  return isRepeated ? "repeated" : "ask";
}

/** The question that a call puts; undefined where there is none to put, and the call says so by being performed. */
function questionOf({ id, name, input }: ToolCall, message: number, rules: Rules): OpenQuestion | undefined {
  if (name !== ASK_TOOL || !rules.canAsk) return undefined;
  const { data } = QuestionInput.safeParse(input);
  const { default_answer } = data ?? {};
  return (
    data && {
      question_id: entryKey.call(message, id),
      text: data.question,
      ...(default_answer !== undefined && { default_answer }),
    }
  );
}

function end(reason: StopReason): Step {
  return { do: "settle", reason, natural: false };
}
