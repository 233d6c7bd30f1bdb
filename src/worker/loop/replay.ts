/**
 * Replays a run from its log: asks `next` before each entry what it would do, and says where the log has something else. The
 * loop is pure, so it decides again as it did, but for what no log holds (running time, the parent's wish for an end, budgets,
 * what the provider found too long, rules and hooks of the worker): where only that explains an entry, it is assumed, and said.
 */
import type { AgentSpec } from "../../shared/protocol/agent.ts";
import type { StopReason } from "../../shared/protocol/reply.ts";
import { type LogEntry, readLog } from "./log.ts";
import { type CallStep, next, type Step } from "./next.ts";
import type { RunRules } from "./reply-body.ts";
import { RunState } from "./state.ts";

/** One decision: at which message, what the log says was done, what `next` says, and what was assumed for it. */
export interface Decision {
  message: number;
  logged: string;
  decided: string;
  agrees: boolean;
  /** What no log holds and had to be so. */
  assumed?: string;
}

/** A run to replay; `ended`: why it stopped by itself, absent while it goes on or where it was ended from outside. */
export interface ReplayedRun {
  run: number;
  spec: AgentSpec;
  log: ReadonlyMap<string, string>;
  ended?: StopReason | undefined;
}

/** The decisions of a run, oldest first. Throws a zod error for an entry that this version does not know. */
export function replay({ run, spec, log, ended }: ReplayedRun): Decision[] {
  const state = new RunState(run);
  const rules = rulesOf(spec);
  const decisions: Decision[] = [];
  let before: LogEntry | undefined;
  for (const entry of readLog(log)) {
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

/** What an entry shows to have been decided before it. */
interface Wanted {
  logged: string;
  does: readonly Step["do"][];
  /** Of a final call or an end. */
  cause?: StopReason | undefined;
  /** It makes room in the context window: by a summary of what stands before message `compactBefore`, or without one. */
  makesRoom?: { compactBefore?: number };
}

/** Undefined for an entry of an earlier run, and for one that follows from the decision before it. */
function wantedBy(entry: LogEntry, before: LogEntry | undefined, state: RunState): Wanted | undefined {
  const { kind, message } = entry;
  if (kind === "delivery" && entry.run === state.run) {
    // What they said decides nothing.
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
      const goesOn = before?.message === message && (before.kind === "started" || before.kind === "result");
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
  // After a summary that did not fit, or came to nothing, one of less was asked for.
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

/** Brings into the state what would explain `cause` and stands in no log; undefined where nothing would. */
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
      state.overBudget = cause;
      return "a budget was spent";
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

/** The rules as the record holds them; those of the worker are not known here. */
function rulesOf({ limits, alerts, model, permissions, answer_ms, output_schema }: AgentSpec): RunRules {
  return {
    limits,
    ...(alerts && { alerts }),
    model,
    idempotentTools: new Set(),
    canAsk: answer_ms !== undefined,
    permissions: permissions ?? [],
    canBePermitted: answer_ms !== undefined,
    outputSchema: output_schema,
  };
}
