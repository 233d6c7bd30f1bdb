/**
 * Replays a run from its log: asks `next` before each entry what it would do, and reports where the log differs. The loop is
 * pure, so only facts outside the log change its decisions: running time, the parent's `finish`, budgets, the
 * provider's limit of length, rules and hooks of the worker. If only such a fact explains an entry, the replay assumes it
 * and says so.
 */
import type { AgentSpec } from "../../shared/protocol/agent.ts";
import type { StopReason } from "../../shared/protocol/reply.ts";
import { type LogEntry, readLog } from "./log.ts";
import { type CallStep, next, type Step } from "./next.ts";
import type { RunRules } from "./rules.ts";
import { RunState } from "./state.ts";

/** One decision: its message, the step in the log, the step that `next` returns, and the assumption for it. */
export interface Decision {
  message: number;
  logged: string;
  decided: string;
  agrees: boolean;
  /** Fact outside the log that had to be true. */
  assumed?: string;
}

/** A run to replay. `ended`: reason why it stopped by itself; absent while it goes on or if it was ended from outside. */
export interface ReplayedRun {
  run: number;
  spec: AgentSpec;
  log: ReadonlyMap<string, string>;
  ended?: StopReason | undefined;
}

/** Returns the decisions of a run, oldest first. Throws a zod error for an entry that this version does not know. */
export function replay({ run, spec, log, ended }: ReplayedRun): Decision[] {
  const state = new RunState(run);
  const rules = rulesOf(spec);
  const decisions: Decision[] = [];
  let before: LogEntry | undefined;
  for (const entry of upToRun(run, readLog(log))) {
    const wanted = wantedBy(entry, before, state);
    if (wanted) decisions.push(decide(state, rules, entry.message, wanted));
    state.unread = [];
    state.fold(entry);
    before = entry;
  }
  if (ended !== undefined) {
    const wanted = { logged: `settle ${ended}`, does: ["settle"] as const, cause: ended };
    decisions.push(decide(state, rules, state.userMessageNumber, wanted));
  }
  return decisions;
}

/** Returns the entries before the first message of a later run: an answer of that may look like one to this run's last message. */
function upToRun(run: number, entries: readonly LogEntry[]): readonly LogEntry[] {
  const later = entries.find((entry) => entry.kind === "delivery" && entry.run > run)?.message;
  return later === undefined ? entries : entries.filter(({ message }) => message < later);
}

/** Decision that was made before an entry, as the entry shows it. */
interface Wanted {
  logged: string;
  does: readonly Step["do"][];
  /** Cause of a final call or an end. */
  cause?: StopReason | undefined;
  /** Set if the entry makes room in the context window: by a summary of the messages before `compactBefore`, or without one. */
  makesRoom?: { compactBefore?: number };
}

/** Returns undefined for an entry of an earlier run, and for one that follows from the decision before it. */
function wantedBy(entry: LogEntry, before: LogEntry | undefined, state: RunState): Wanted | undefined {
  const { kind, message } = entry;
  if (kind === "delivery" && entry.run === state.run) {
    // Their texts decide nothing.
    state.unread = entry.partsJson.map((_, i) => ({ v: 1, message_id: `${message}.${i}`, text: "" }));
    return { logged: "deliver", does: ["deliver"] };
  }
  if (!state.isBegun) return undefined;
  switch (kind) {
    case "answer": {
      const cause = entry.finalCall;
      return { logged: cause ? `call_model (last: ${cause})` : "call_model", does: ["call_model"], cause };
    }
    case "started":
    case "result": {
      // An answer stands between the calls of two messages.
      const goesOn = before?.kind === "started" || before?.kind === "result";
      return goesOn ? undefined : { logged: "run_tools or ask", does: ["run_tools", "ask"] };
    }
    case "cleared":
      return { logged: "clear", does: ["clear"], makesRoom: {} };
    case "compacted": {
      const compactBefore = entry.value.before;
      return { logged: summaryCall(compactBefore), does: ["call_model"], makesRoom: { compactBefore } };
    }
    case "verdict":
      return { logged: "check_output", does: ["check_output"] };
    default:
      return undefined;
  }
}

function decide(state: RunState, rules: RunRules, message: number, wanted: Wanted): Decision {
  let step = next(state, rules);
  let assumed: string | undefined;
  if (!fits(step, message, wanted)) {
    assumed = wanted.makesRoom ? assumeTooLong(state) : assume(state, rules, wanted.cause);
    if (assumed !== undefined) step = next(state, rules);
  }
  // After a summary that did not fit or failed, the run asked for a summary of fewer messages.
  while (isOfMore(step, wanted)) {
    state.unsummedAtMessage = step.compactBefore;
    step = next(state, rules);
  }
  const agrees = fits(step, message, wanted);
  const decision = { message, logged: wanted.logged, decided: inWords(step), agrees };
  return agrees && assumed !== undefined ? { ...decision, assumed } : decision;
}

function fits(step: Step, message: number, { does, cause, makesRoom }: Wanted): boolean {
  if (!does.includes(step.do)) return false;
  if (step.do === "settle") return step.reason === cause;
  if (step.do === "call_model" && makesRoom)
    return step.message === message + 1 && step.compactBefore === makesRoom.compactBefore;
  if (step.do === "call_model")
    return step.message === message && step.finalCall === cause && step.compactBefore === undefined;
  return step.do === "ask" || step.message === message;
}

function isOfMore(step: Step, { makesRoom }: Wanted): step is CallStep & { compactBefore: number } {
  if (step.do !== "call_model" || step.compactBefore === undefined) return false;
  return makesRoom?.compactBefore !== undefined && step.compactBefore > makesRoom.compactBefore;
}

function assumeTooLong(state: RunState): string {
  state.tooLongAtMessage = state.userMessageNumber;
  return "the provider found the conversation too long";
}

/** Adds the fact to the state that would explain `cause` and is in no log; returns undefined if there is none. */
function assume(state: RunState, { limits }: RunRules, cause: StopReason | undefined): string | undefined {
  switch (cause) {
    case "finished_by_parent":
      state.finish = true;
      return "the parent asked for an end";
    case "max_duration":
      state.elapsedMs = limits.max_duration_ms - 1;
      return "the time was over";
    case "max_total_tokens":
    case "max_cost":
      state.overBudget = { cap: cause };
      return "a budget was spent";
    case "invalid_output":
      state.elapsedMs = limits.max_duration_ms;
      return "no call was left to repair the output: the time was over, or a budget was spent";
    default:
      return undefined;
  }
}

function inWords(step: Step): string {
  if (step.do === "settle") return `settle ${step.reason}`;
  if (step.do === "call_model" && step.compactBefore !== undefined) return summaryCall(step.compactBefore);
  if (step.do === "call_model" && step.finalCall) return `call_model (last: ${step.finalCall})`;
  return step.do;
}

function summaryCall(before: number): string {
  return `call_model (summary of what stands before message ${before})`;
}

/** Returns the rules of the record that decide a step; those of the worker are unknown here. */
function rulesOf({ limits, model, permissions, answer_ms, output_schema }: AgentSpec): RunRules {
  return {
    limits,
    model,
    idempotentTools: new Set(),
    canAsk: answer_ms !== undefined,
    permissions: permissions ?? [],
    canBePermitted: answer_ms !== undefined,
    outputSchema: output_schema,
  };
}
