/**
 * What happens next, as a pure and total function of the log. Running an agent is "perform, append, ask again";
 * resuming after a crash is asking again.
 */
import type { InboxMessage } from "../../shared/protocol/message.ts";
import type { PartialReason, StopReason } from "../../shared/protocol/reply.ts";
import { judgeCaps } from "./caps.ts";
import type { Log } from "./log.ts";
import { REPETITION_LIMIT, repetitions } from "./repetition.ts";
import { isNudged, type RunView, type ToolCall, type Turn, viewRun } from "./run-view.ts";
import type { Rules } from "./tally.ts";

/** How a call is answered: `run` performs it, the others only commit a result that says why not. */
export interface PlannedCall extends Pick<ToolCall, "id" | "name" | "input"> {
  how: "run" | "interrupted" | "repeated";
}

/**
 * The next step. `deliver`: log the parent's messages as message `message`, consuming the inbox up to `consumeTo`;
 * `call_model`: buy message `message`, with `handBack` as the last call; `run_tools`: answer the open calls of message
 * `message`, all in parallel; `settle`: the run is over, `natural` when an unread message should keep it going.
 */
export type Step =
  | { do: "deliver"; message: number; messages: readonly InboxMessage[]; consumeTo: number }
  | { do: "call_model"; message: number; turn: number; handBack?: PartialReason }
  | { do: "run_tools"; message: number; turn: number; calls: PlannedCall[] }
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
      const calls = openCalls(last, view, rules);
      if (calls.length > 0) return { do: "run_tools", message: last.message, turn: view.turns.length, calls };
      return boundary(log, view, rules);
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

function openCalls(last: Turn, view: RunView, rules: Rules): PlannedCall[] {
  const counts = repetitions(view.turns);
  return last.calls
    .filter((call) => !call.result)
    .map((call) => ({
      id: call.id,
      name: call.name,
      input: call.input,
      how: howToAnswer(call, counts, rules),
    }));
}

function howToAnswer(call: ToolCall, counts: Map<ToolCall, number>, rules: Rules): PlannedCall["how"] {
  if (call.started && !rules.idempotentTools.has(call.name)) return "interrupted";
  return (counts.get(call) ?? 0) >= REPETITION_LIMIT ? "repeated" : "run";
}

function end(reason: StopReason): Step {
  return { do: "settle", reason, natural: false };
}
