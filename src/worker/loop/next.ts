/**
 * Decides the next step, as a pure and total function of the run's state. Running an agent is "perform, append, ask again";
 * resuming after a crash is asking again.
 */
import { withoutNulls } from "../../shared/protocol/content.ts";
import { entryKey } from "../../shared/protocol/log.ts";
import {
  ASK_TOOL,
  type InboxMessage,
  type OpenQuestion,
  permissionQuestion,
  permits,
  permittedCallOf,
  QuestionInput,
} from "../../shared/protocol/message.ts";
import type { Work } from "../../shared/protocol/pattern.ts";
import { permissionFor, workOfAnswer } from "../../shared/protocol/permissions.ts";
import type { CapReason, StopReason } from "../../shared/protocol/reply.ts";
import { type ClearStep, clearStep, fittingStep, isFilling, makeRoom, nextAllowedCall } from "./caps.ts";
import type { RunRules } from "./rules.ts";
import { type CallState, knownStop, type LastAnswer, type RunState } from "./state.ts";
import { REPETITION_LIMIT } from "./tally.ts";

/** A call and its treatment. `how`: `run` performs the call; the others only commit a result with the reason. */
export interface PlannedCall extends Pick<CallState, "id" | "name" | "input"> {
  how: "run" | "interrupted" | "repeated" | "unanswered" | "denied";
  /** Reason if the call is `denied`. */
  reason?: string;
}

/** The next step. */
export type Step =
  /** Logs the parent's messages as message `message`, consuming the inbox up to `consumeTo`. */
  | { do: "deliver"; message: number; messages: readonly InboxMessage[]; consumeTo: number }
  | CallStep
  /** Answers the open calls of message `message`, all in parallel. */
  | { do: "run_tools"; message: number; turn: number; calls: PlannedCall[] }
  | ClearStep
  /** Checks whether message `message` fits the output schema. */
  | { do: "check_output"; message: number; text: string }
  /** Waits for the parent's answers to the remaining calls. */
  | { do: "ask"; turn: number; questions: OpenQuestion[] }
  /** Ends the run; `natural` if an unread message should keep it going. */
  | { do: "settle"; reason: StopReason; natural: boolean };

/** Buys message `message`, or a summary that makes room for it. */
export interface CallStep {
  do: "call_model";
  message: number;
  turn: number;
  /** The cap that makes it the final call. */
  finalCall?: CapReason;
  /** True if the answer must be the output. */
  asksOutput?: boolean;
  /** Buys a summary of the messages before this one. The log stores it as `before`, or as `sums_up` if it cannot be used. */
  compactBefore?: number;
}

/** Result of a call for which the log has no room. */
const NO_ROOM = "Not executed: the conversation has become too long to take another result.";

/** Attempts after a final answer that does not fit the output schema: one with the schema enforced, then two repairs. */
const MOST_MISMATCHES = 3;

/** Decides the next step of the run under `rules`. */
export function next(state: RunState, rules: RunRules): Step {
  const { failure, last } = state;
  if (failure) return end(failure.hand_back ?? failure.kind);
  if (last?.finalCall) return outputCheckStep(last, state, rules) ?? end(last.finalCall);
  if (state.hasWastedTooManyCalls) return end("model_error");
  const room = state.tooLongAtMessage === state.userMessageNumber ? makeRoom(state, rules) : undefined;
  if (room) return room;
  if (last && !state.isDelivered) return afterAnswer(last, state, rules);
  return betweenCalls(state, rules);
}

/** Decides the step after an answer to which nothing was said yet. Unknown stop reasons fail the run. */
function afterAnswer(last: LastAnswer, state: RunState, rules: RunRules): Step {
  switch (knownStop(last.stopReason)) {
    case "tool_use": {
      if (last.calls.length === 0) return end("model_error");
      return answerCalls(last, state, rules) ?? betweenCalls(state, rules);
    }
    case "pause_turn":
      return betweenCalls(state, rules);
    case "end_turn":
    case "stop_sequence":
      if (state.unread.length > 0) return oneMore(state, rules);
      // A second empty answer is final.
      if (last.isMute && !state.isAfterNudge) return betweenCalls(state, rules);
      return outputCheckStep(last, state, rules) ?? endNaturally(state, rules);
    case "max_tokens":
      return end("max_tokens");
    case "refusal":
      return end("refusal");
    case "model_context_window_exceeded":
      if (state.clearedAtMessage === state.userMessageNumber) return betweenCalls(state, rules);
      return makeRoom(state, rules) ?? end("context_window");
    case undefined:
      return end("model_error");
  }
}

/** Returns the check of a final answer, if the parent asked for output and the check was not made yet. */
function outputCheckStep(
  { message }: LastAnswer,
  { verdict, tally }: RunState,
  { outputSchema }: RunRules,
): Step | undefined {
  if (!outputSchema || verdict) return undefined;
  return { do: "check_output", message, text: tally.text };
}

/** Ends the run naturally if its output fits, else asks again if it may. The last answer was paid for and stays the summary. */
function endNaturally(state: RunState, rules: RunRules): Step {
  const { verdict, mismatches } = state;
  if (!verdict || verdict.fits) return { do: "settle", reason: "end_turn", natural: true };
  if (verdict.final || mismatches > MOST_MISMATCHES) return end("invalid_output");
  // A budget without room refuses every call but a final one: this call would be planned and refused again and again.
  if (state.overBudget || nextAllowedCall(state, rules).call === "none") return end("invalid_output");
  return {
    do: "call_model",
    message: state.userMessageNumber + 1,
    turn: state.paidCalls + 1,
    asksOutput: true,
  };
}

/** Decides a natural end with an unread message: the run goes on if it may; otherwise the message waits for the next run. */
function oneMore(state: RunState, rules: RunRules): Step {
  return nextAllowedCall(state, rules).call === "none" ? end("end_turn") : betweenCalls(state, rules);
}

/**
 * Decides between two model calls: the caps come first, then the parent's unread messages, then the call. Caps never stop a
 * run from taking its first message: left in the inbox, it would start another run after each run.
 */
function betweenCalls(state: RunState, rules: RunRules): Step {
  const unread = state.unread.length > 0 && !state.isDelivered;
  if (!state.isBegun) return unread ? deliver(state) : end("model_error");
  const allowed = nextAllowedCall(state, rules);
  if (allowed.call === "none") return end(allowed.cause);
  // A paused answer goes back unchanged, so the parent's messages wait until the model has finished it.
  const isPaused = state.last?.stopReason === "pause_turn" && allowed.call === "ordinary";
  if (unread && !isPaused) return deliver(state);
  const fitting = fittingStep(state, rules);
  if (fitting) return fitting;
  if (isFilling(state, rules)) {
    const clear = clearStep(state, false);
    if (clear) return clear;
  }
  const call = { do: "call_model", message: state.userMessageNumber + 1, turn: state.paidCalls + 1 } as const;
  return allowed.call === "final"
    ? { finalCall: allowed.cause, ...call, ...(rules.outputSchema && { asksOutput: true }) }
    : call;
}

function deliver({ unread, inboxRead, userMessageNumber }: RunState): Step {
  return {
    do: "deliver",
    message: userMessageNumber,
    messages: unread,
    consumeTo: inboxRead + unread.length,
  };
}

/**
 * Plans the open calls. Questions come last, because a waiting agent does nothing else. None is asked if no call may follow
 * that would read the answer.
 */
function answerCalls(last: LastAnswer, state: RunState, rules: RunRules): Step | undefined {
  const { message, turn } = last;
  const calls: PlannedCall[] = [];
  const questions: OpenQuestion[] = [];
  const work = workOfAnswer();
  for (const call of last.calls) {
    if (call.isAnswered) continue;
    const planned = planOpen({ call, work }, message, state, rules);
    if ("question_id" in planned) questions.push(planned);
    else calls.push({ id: call.id, name: call.name, input: call.input, ...planned });
  }
  if (calls.length > 0) return { do: "run_tools", message, turn, calls };
  if (questions.length === 0 || nextAllowedCall(state, rules).call === "none") return undefined;
  return { do: "ask", turn, questions };
}

type Planned = Pick<PlannedCall, "how" | "reason"> | OpenQuestion;

/** An open call, and the work left for matching it with permission rules. */
interface OpenCall {
  call: CallState;
  work: Work;
}

/** Plans a call without a result. If the log is full no call begins, because the final call comes next. */
function planOpen(open: OpenCall, message: number, state: RunState, rules: RunRules): Planned {
  const { call } = open;
  if (state.isLogFull && !call.isStarted) return { how: "denied", reason: NO_ROOM };
  const question = questionOf(call, message, rules);
  return question ? planQuestion(question, open, state, rules) : planCall(open, state, rules);
}

/** Plans a question to the parent. It satisfies a rule with `ask` by itself, because the parent answers it. */
function planQuestion(
  question: OpenQuestion,
  { call, work }: OpenCall,
  state: RunState,
  rules: RunRules,
): Planned {
  const how = howToAsk(call, state);
  if (how !== "ask") return { how };
  const { verdict, rule } = permissionFor(rules.permissions ?? [], call.name, call.input, work);
  return verdict === "deny" ? denied(rule) : question;
}

function planCall({ call, work }: OpenCall, state: RunState, rules: RunRules): Planned {
  const how = howToPerform(call, rules);
  return how === "run" ? applyPermissions({ call, work }, state, rules) : { how };
}

/** Applies the permission rules to a call that could begin otherwise: it runs, is denied, or becomes a question to the parent. */
function applyPermissions(
  { call, work }: OpenCall,
  { last, finish }: RunState,
  { permissions = [], canBePermitted = false }: RunRules,
): Planned {
  const { verdict, rule } = permissionFor(permissions, call.name, call.input, work);
  if (verdict === "allow") return { how: "run" };
  if (verdict === "deny") return denied(rule);
  if (call.permission !== undefined) {
    if (permits(call.permission)) return { how: "run" };
    return { how: "denied", reason: `Your parent did not permit this call: ${call.permission}` };
  }
  if (call.isPermissionAsked || finish) return { how: "unanswered" };
  // Entries of a call with this id would look like the question and its answer.
  const isForged = last?.calls.some(({ id }) => permittedCallOf(id) === call.id) === true;
  if (!canBePermitted || isForged)
    return {
      how: "denied",
      reason: `Not permitted (${rule}): this needs your parent's word, and it cannot be asked.`,
    };
  return permissionQuestion(entryKey.call(last?.message ?? 0, call.id), call.name, call.input, rule);
}

function denied(rule: string): Planned {
  return { how: "denied", reason: `Not permitted (${rule}). Go on without it.` };
}

function howToPerform(call: CallState, rules: RunRules): PlannedCall["how"] {
  if (call.isStarted && !rules.idempotentTools.has(call.name)) return "interrupted";
  return call.repeats >= REPETITION_LIMIT ? "repeated" : "run";
}

/** Plans a question by its state: one without an answer when its agent goes on gets none. */
function howToAsk(call: CallState, { finish }: RunState): PlannedCall["how"] | "ask" {
  if (call.isStarted || finish) return "unanswered";
  return call.repeats >= REPETITION_LIMIT ? "repeated" : "ask";
}

/** Returns the question that a call asks. Undefined for another call, and for an invalid question: its result gives the reason. */
export function questionOf(
  { id, name, input }: { id: string; name: string; input: unknown },
  message: number,
  rules: RunRules,
): OpenQuestion | undefined {
  if (name !== ASK_TOOL || !rules.canAsk) return undefined;
  const { data } = QuestionInput.safeParse(withoutNulls(input));
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
