/**
 * The body of the reply with which a run would end now.
 *
 * The text of the body is in the agent's record, or only in a log entry: then the progress names the number of its message.
 */
import type { AgentRecord } from "../../shared/protocol/agent.ts";
import type { Limits } from "../../shared/protocol/limits.ts";
import { LOG_MAX_BYTES } from "../../shared/protocol/log.ts";
import { ASK_TOOL, isPermissionQuestion, type OpenQuestion } from "../../shared/protocol/message.ts";
import type { Alert, ReplyBody } from "../../shared/protocol/reply.ts";
import { quoted } from "../../shared/protocol/text.ts";
import { roundUsd } from "../../shared/protocol/usage.ts";
import type { RunRules } from "./rules.ts";
import { knownStop, PAID_IN_VAIN, type RunState } from "./state.ts";
import { summarise, type Tally } from "./tally.ts";

/** Percentage of a cap at which the default alert lies; whole, so that 80 % of 3 turns are 2.4. */
const DEFAULT_ALERT_PERCENT = 80;

/** Returns the body of the reply if the run ended now. */
export function replyBody(state: RunState, rules: RunRules): ReplyBody {
  const { tally, failure } = state;
  const error =
    failure?.message ??
    (state.hasWastedTooManyCalls ? PAID_IN_VAIN : logFullOf(state)) ??
    oddStopOf(state) ??
    providerRefusalOf(state) ??
    mismatchOf(state) ??
    spentBudgetOf(state);
  // Output is one JSON value, so no earlier text is added to it.
  const { summary, truncated } = rules.outputSchema ? summarise(tally.text) : tally.summary;
  const { output } = state;
  const body: ReplyBody = {
    summary,
    truncated,
    turns: state.turns,
    tokens: tally.tokens,
    usage: tally.usage,
    cost_usd: roundUsd(tally.costUsd),
    tools_called: Object.fromEntries([...tally.calls].sort(byName)),
    alerts: alertsOf(state, rules),
    duration_ms: Math.round(state.elapsedMs),
    model: tally.model ?? rules.model,
  };
  if (rules.unknownTools?.length) body.unknown_tools = [...rules.unknownTools];
  if (state.compactions > 0) body.compactions = state.compactions;
  if (output !== undefined) body.output = output;
  if (error !== undefined) body.error = error;
  return body;
}

/** Text in the record: the summary, and the whole text if the summary was cut. */
export interface TextInRecord {
  summary: string | undefined;
  whole: string;
}

const ONLY_IN_LOG = { summary: undefined, whole: "" } as const;

/** Returns the text in a claimed record; undefined if the record does not tell. */
export function textIn({ progress, said }: AgentRecord): TextInRecord | undefined {
  if (!progress || said !== undefined) return ONLY_IN_LOG;
  return progress.truncated ? undefined : { summary: progress.summary, whole: "" };
}

/**
 * Returns the progress and text that a commit sends of `body` (`args`), and the text in the record after it (`text`). The
 * text is sent only if no log entry has it and the record holds another one. The last commit always writes it to the record,
 * because the record outlives the log.
 */
export function progressUpdate(
  body: ReplyBody,
  { state }: { state: RunState },
  held: TextInRecord | undefined,
  isLast: boolean,
) {
  const said = isLast ? 0 : saidIn(body, state);
  const text = said > 0 ? ONLY_IN_LOG : { summary: body.summary, whole: wholeTextOf(body, state) };
  return { progress: body, text, args: { progress: { said, ...body }, ...changeTo(text, held) } };
}

/** Returns the arguments that change the record's text to `text`; undefined if it is the same. */
function changeTo({ summary, whole }: TextInRecord, held: TextInRecord | undefined) {
  if (held?.summary === summary && held?.whole === whole) return undefined;
  return { summary, whole_text: whole === "" ? undefined : whole, forgets_summary: summary === undefined };
}

/** Returns the uncut text of the summary if `body` had to cut it, else "". */
function wholeTextOf({ truncated }: ReplyBody, { tally }: RunState): string {
  return truncated ? tally.report : "";
}

/**
 * Returns the number of the log message whose trimmed text is the summary of `body`; 0 if there is none. A script trims
 * fewer blanks than `trim`, so only those are allowed around the summary.
 */
function saidIn({ summary }: ReplyBody, { tally: { text, said } }: RunState): number {
  const at = text.indexOf(summary);
  const around = at < 0 ? text : text.slice(0, at) + text.slice(at + summary.length);
  return /^[\t-\r ]*$/.test(around) ? said : 0;
}

/** Returns `body` with these questions counted as calls, except permission questions: their calls count when they begin. */
export function withQuestions(body: ReplyBody, questions: readonly OpenQuestion[]): ReplyBody {
  const put = questions.filter((question) => !isPermissionQuestion(question)).length;
  if (put === 0) return body;
  const asked = (body.tools_called[ASK_TOOL] ?? 0) + put;
  return { ...body, tools_called: { ...body.tools_called, [ASK_TOOL]: asked } };
}

/** Error sentence for a run that made its final call because the log was full. */
const LOG_FULL = `The log of this sub-agent has reached ${LOG_MAX_BYTES / 1024 ** 2} MB, the most that it may have: it takes no further message. Spawn a new one and tell it what it needs to know.`;

function logFullOf({ last }: RunState): string | undefined {
  return last?.finalCall === "context_window" ? LOG_FULL : undefined;
}

const HOLDERS = { agent: "of this agent", parent: "of its parent", tenant: "of its tenant" } as const;

/** Returns which budget has no room for another call. The cap is in the stop reason. */
function spentBudgetOf({ overBudget }: RunState): string | undefined {
  if (overBudget?.of === undefined) return undefined;
  return `The budget ${HOLDERS[overBudget.of]} has no room for another call.`;
}

/** Maximum UTF-16 code units of a provider's words about a refusal in the reply. */
const REFUSAL_CHARS = 256;

/** Returns the reason if the loop does not know why the answer ended the run. A final call ends it in any case. */
function oddStopOf({ last }: RunState): string | undefined {
  if (!last || last.finalCall) return undefined;
  if (last.stopReason === "tool_use" && last.calls.length === 0)
    return "The model stopped for a tool call, and made none.";
  return knownStop(last.stopReason)
    ? undefined
    : `The model stopped for a reason that is not known here: ${quoted(last.stopReason)}.`;
}

/** Returns the provider's words about its refusal. */
function providerRefusalOf({ last }: RunState): string | undefined {
  if (last?.refusal === undefined) return undefined;
  return `The provider says of its refusal: ${quoted(last.refusal, REFUSAL_CHARS)}.`;
}

/** Returns the reason why the requested output is missing. */
function mismatchOf({ verdict }: RunState): string | undefined {
  return verdict && !verdict.fits ? `The output does not fit its schema: ${verdict.problem}.` : undefined;
}

function byName([a]: [string, number], [b]: [string, number]): number {
  return a < b ? -1 : 1;
}

const ALERTS: readonly Alert["kind"][] = ["turns", "tokens", "tool_calls", "cost_usd"];

/** Returns the alerts whose thresholds the run has reached. */
function alertsOf({ paidCalls, tally }: RunState, { limits, alerts = {} }: RunRules): Alert[] {
  const reached: Alert[] = [];
  for (const kind of ALERTS) {
    const threshold = alerts[kind] ?? defaultThreshold(kind, limits);
    if (threshold === undefined) continue;
    const value = countOf(kind, paidCalls, tally);
    if (value >= threshold) reached.push({ kind, threshold, value });
  }
  return reached;
}

function defaultThreshold(kind: Alert["kind"], limits: Limits): number | undefined {
  const cap = capOf(kind, limits);
  return cap === undefined ? undefined : (cap * DEFAULT_ALERT_PERCENT) / 100;
}

function capOf(kind: Alert["kind"], limits: Limits): number | undefined {
  switch (kind) {
    case "turns":
      return limits.max_turns;
    case "tokens":
      return limits.max_total_tokens;
    case "cost_usd":
      return limits.max_cost_usd;
    case "tool_calls":
      return undefined;
  }
}

function countOf(kind: Alert["kind"], paidCalls: number, { tokens, toolCalls, costUsd }: Tally): number {
  switch (kind) {
    case "turns":
      return paidCalls;
    case "tokens":
      return tokens;
    case "tool_calls":
      return toolCalls;
    case "cost_usd":
      return roundUsd(costUsd);
  }
}
