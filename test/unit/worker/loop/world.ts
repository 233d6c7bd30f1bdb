/**
 * A whole agent without Redis, provider or tools: a script says what the model answers, when calls are paid for in
 * vain, when the parent writes and where the worker dies. Everything is a function of the script and of how far the
 * log has come, so a log cut anywhere goes on as it would have.
 */
import fc from "fast-check";
import { expect } from "vitest";
import type { ContentBlock, JsonObject } from "../../../../src/shared/protocol/content.ts";
import { entryKey, type UserEntry } from "../../../../src/shared/protocol/log.ts";
import type { OpenQuestion } from "../../../../src/shared/protocol/message.ts";
import type { ReplyBody, StopReason } from "../../../../src/shared/protocol/reply.ts";
import { statusOf } from "../../../../src/shared/protocol/reply.ts";
import { makeRoom } from "../../../../src/worker/loop/caps.ts";
import { readEntry, readLog } from "../../../../src/worker/loop/log.ts";
import { next, type PlannedCall, type Step } from "../../../../src/worker/loop/next.ts";
import { replyBody } from "../../../../src/worker/loop/reply-body.ts";
import type { RunRules } from "../../../../src/worker/loop/rules.ts";
import { RunState } from "../../../../src/worker/loop/state.ts";
import { expectSame } from "../../../helpers/cases.ts";
import { call, message, rules, storedJson, used } from "./story.ts";

interface ScriptedAnswer {
  /** Calls that bring nothing before the one that brings this. */
  inVain: number;
  /** They were cut off by this side; else they count as turns. */
  cutOff: boolean;
  failure?: "context_window" | "model_error";
  stop: string;
  content: ContentBlock[];
  tokens: number;
  /** In 1/1024 USD, so that sums are exact in any order. */
  cost: number;
}

/** What happens to one agent. Points in time are lengths of the log. */
export interface Script {
  rules: RunRules;
  /** Message 2k + 1 is answer k, over and over. */
  answers: ScriptedAnswer[];
  /** When each message after the first arrives, if the agent is still at work; else each starts a run. */
  mail: number[];
  crashes: number[];
  finish: { run: number; at: number } | undefined;
  msPerEntry: number;
  /** The provider refuses a call with more characters of messages. */
  window?: number;
}

/** A model that calls a tool, or says what `answers` name, over and over. */
export function again(answers: Partial<ScriptedAnswer>[], more: Partial<Script> = {}): Script {
  const calling: ScriptedAnswer = {
    inVain: 0,
    cutOff: false,
    stop: "tool_use",
    content: [call("a_1", "look")],
    tokens: 1,
    cost: 1,
  };
  return {
    answers: answers.map((answer) => ({ ...calling, ...answer })),
    mail: [],
    crashes: [],
    finish: undefined,
    msPerEntry: 0,
    rules: rules({ max_turns: 8 }),
    ...more,
  };
}

/** A run's end: at which length of the log, and how. */
export interface Settled {
  at: number;
  reason: StopReason;
  body: ReplyBody;
  /** Messages that had arrived when the next run began. */
  arrived: number;
}

/** How far an agent has come. */
export interface Life {
  entries: [key: string, json: string][];
  /** Of the run that goes on, moved on entry by entry; undefined before it is claimed. */
  state: RunState | undefined;
  settled: Settled[];
  /** The runs in which model calls brought an answer or failed for good, since this life was resumed. */
  calls: number[];
}

/** A life that goes on from `entries`; `settled` are the runs that were over before the last of them. */
export function lifeFrom(entries: Life["entries"], settled: readonly Settled[]): Life {
  return {
    entries: [...entries],
    state: undefined,
    settled: [...settled],
    calls: [],
  };
}

/** Where the run stands, as a worker finds it that claims it now. Redis returns a hash in any order. */
export function logOf(script: Script, life: Life): RunState {
  return heeding(script, life, new RunState(life.settled.length + 1, readLog([...life.entries].reverse())));
}

/** Where the run stands for the worker that has held it so far. */
function heldOf(script: Script, life: Life): RunState {
  life.state ??= logOf(script, life);
  return heeding(script, life, life.state);
}

function heeding(script: Script, { entries, settled }: Life, state: RunState): RunState {
  const consumed = deliveriesOf(entries).reduce((sum, { messages }) => sum + messages.length, 0);
  const arrived = arrivedBy(script, entries.length, settled);
  return Object.assign(state, {
    unread: Array.from({ length: Math.max(0, arrived - consumed) }, (_, i) => message(`${consumed + i}`)),
    inboxRead: consumed,
    elapsedMs: script.msPerEntry * (entries.length - (settled.at(-1)?.at ?? 0)),
    finish: script.finish?.run === state.run && entries.length >= script.finish.at,
  });
}

function deliveriesOf(entries: Life["entries"]): UserEntry[] {
  return entries.flatMap(([key, json]): UserEntry[] =>
    EVEN.has(key.at(-1) ?? "") ? deliveryIn(key, json) : [],
  );
}

const EVEN = new Set("02468");

function deliveryIn(key: string, json: string): UserEntry[] {
  return /^\d+$/.test(key) ? [JSON.parse(json)] : [];
}

function arrivedBy({ mail }: Script, length: number, settled: readonly Settled[]): number {
  const late = mail.findIndex((at) => at > length);
  return Math.max(settled.at(-1)?.arrived ?? 1, 1 + (late === -1 ? mail.length : late));
}

/** Lets the agent live to its end. Fails when a run takes more steps than its limits allow. */
export function liveOn(script: Script, life: Life, watch?: (state: RunState, step: Step) => void): Life {
  const { max_turns } = script.rules.limits;
  const runs = script.mail.length + 1;
  for (let steps = 0; life.settled.length < runs; steps++) {
    if (steps > runs * max_turns * 12) expect.fail(`still at it after ${steps} steps`);
    const state = heldOf(script, life);
    const step = next(state, script.rules);
    watch?.(state, step);
    if (step.do !== "settle") perform(script, life, state, step);
    else if (!settle(script, life, state, step)) break;
  }
  return life;
}

function settle(script: Script, life: Life, state: RunState, step: Extract<Step, { do: "settle" }>): boolean {
  if (step.natural) expectSame(state.unread.length, 0);
  expectSame(
    deliveriesOf(life.entries).some(({ run }) => run === state.run),
    true,
  );
  const at = life.entries.length;
  const arrived = Math.max(state.inboxRead + 1, state.inboxRead + state.unread.length);
  life.settled.push({ at, reason: step.reason, body: replyBody(state, script.rules), arrived });
  life.state = undefined;
  return ["succeeded", "partial"].includes(statusOf(step.reason)) && arrived <= script.mail.length + 1;
}

function perform(script: Script, life: Life, state: RunState, step: Exclude<Step, { do: "settle" }>): void {
  switch (step.do) {
    case "deliver":
      expectSame(step.consumeTo, state.inboxRead + step.messages.length);
      commit(life, [[entryKey.message(step.message), { run: state.run, messages: step.messages }]]);
      break;
    case "call_model":
      if (isTooLong(script, state, step)) commitRefusal(script, life, state, step);
      else if (step.compactBefore !== undefined)
        commitSummary(script, life, state, { ...step, compactBefore: step.compactBefore });
      else commit(life, [callModel(script, life, state.run, step)]);
      break;
    case "clear":
      commit(life, [[entryKey.cleared(step.message, step.cleared.through), step.cleared]]);
      break;
    case "run_tools":
      runTools(script, life, step.message, step.calls);
      break;
    case "ask":
      // One at a time, so that a log may be cut between any two of its entries.
      for (const question of step.questions.slice(0, 1)) answer(life, question);
  }
}

type CallStep = Extract<Step, { do: "call_model" }>;

function isTooLong({ window = Number.POSITIVE_INFINITY }: Script, state: RunState, step: CallStep): boolean {
  const { conversation } = state;
  const sent =
    step.compactBefore === undefined
      ? conversation.request(step.finalCall)
      : conversation.summaryRequest(step.compactBefore);
  return sent.messages.length > window;
}

/** No entry tells of a refusal after which the run goes on: a worker that takes it over is refused once more. */
function commitRefusal({ rules }: Script, life: Life, state: RunState, step: CallStep): void {
  if (step.compactBefore !== undefined)
    state.unsummedAtMessage = Math.min(state.unsummedAtMessage, step.compactBefore);
  else if (makeRoom(state, rules)) state.tooLongAtMessage = state.userMessageNumber;
  else {
    const finalCall = step.finalCall && { hand_back: step.finalCall };
    commit(life, [[entryKey.failure(step.message), { kind: "context_window", message: "no", ...finalCall }]]);
  }
}

function commitSummary(
  { answers }: Script,
  life: Life,
  state: RunState,
  { message: n, compactBefore }: CallStep & { compactBefore: number },
): void {
  const { tokens = 0, cost = 0 } = answers[((n - 1) / 2) % answers.length] ?? {};
  const price = { usage: used(tokens), cost_usd: cost / 1024 };
  const summary = `what came before ${compactBefore}`;
  if (state.conversation.isShorter(compactBefore, summary)) {
    const goesOn = state.last?.stopReason === "model_context_window_exceeded" && { go_on: true };
    const entry = { before: compactBefore, summary, model: "m", duration_ms: 1, ...price, ...goesOn };
    commit(life, [[entryKey.compacted(n - 1, compactBefore), entry]]);
    return;
  }
  const k = life.entries.filter(([key]) => key.startsWith(`${n}/purchase/`)).length;
  commit(life, [[entryKey.purchase(n, 1, k), { ...price, sums_up: compactBefore }]]);
}

function callModel(
  { answers }: Script,
  life: Life,
  run: number,
  step: Extract<Step, { do: "call_model" }>,
): [string, object] {
  const answer = answers[((step.message - 1) / 2) % answers.length];
  if (!answer) expect.fail("a script without answers");
  const { inVain, cutOff, failure, stop, content, tokens, cost } = answer;
  const attempt = life.entries.filter(([key]) => key.startsWith(`${step.message}/purchase/`)).length;
  const price = { usage: used(tokens), cost_usd: cost / 1024 };
  if (attempt < inVain) {
    const stored = new Map(life.entries);
    let k = 0;
    while (stored.has(entryKey.purchase(step.message, 1, k))) k++;
    return [entryKey.purchase(step.message, 1, k), { ...price, cut_off: cutOff }];
  }
  const finalCall = step.finalCall && { hand_back: step.finalCall };
  life.calls.push(run);
  if (failure) return [entryKey.failure(step.message), { kind: failure, message: "no", ...finalCall }];
  return [
    entryKey.message(step.message),
    { content, stop_reason: stop, model: "m", duration_ms: 1, ...price, ...finalCall },
  ];
}

/** Where the context window is small, the results of some calls are long enough to be left out. */
const LONG = 50;
/**
 * So long is what a request says of a call, whether it ran, was answered or a crash cut it off: the next call's cost and
 * where a summary begins depend on lengths.
 */
const RESULT_CHARS = 64;
const ERROR_MARK = ',"is_error":true';

function runTools({ crashes, rules }: Script, life: Life, n: number, calls: readonly PlannedCall[]): void {
  commit(
    life,
    calls.map(({ id, name, how }) =>
      how === "run"
        ? [entryKey.started(n, id), { name }]
        : [
            entryKey.result(n, id),
            {
              content: how.padEnd(RESULT_CHARS - ERROR_MARK.length),
              is_error: true,
              duration_ms: 0,
              [how === "repeated" ? "denied" : "interrupted"]: true,
            },
          ],
    ),
  );
  for (const { id, how } of calls) {
    if (how !== "run") continue;
    const times = id === "b" && rules.clearAtTokens !== undefined ? LONG : 1;
    const content = `result of ${id}`.repeat(times).padEnd(RESULT_CHARS);
    commit(life, [[entryKey.result(n, id), { content, is_error: false, duration_ms: 1 }]]);
    if (crashes.includes(life.entries.length)) {
      life.state = undefined;
      return;
    }
  }
}

/** The agent waits, and the parent answers; a log that is cut in between is that of an agent told to finish. */
function answer(life: Life, { question_id }: OpenQuestion): void {
  commit(life, [[`${question_id}/started`, { name: "ask_parent" }]]);
  const result = {
    content: `answer to ${question_id}`.padEnd(RESULT_CHARS),
    is_error: false,
    duration_ms: 0,
  };
  commit(life, [[`${question_id}/result`, result]]);
}

/** Entries are written once: only the mark of a tool that is run again may stand there already. */
function commit(life: Life, written: readonly (readonly [string, object])[]): void {
  const stored = new Map(life.entries);
  const entries = written.map(([key, entry]) => [key, storedJson(entry)] as const);
  for (const [key, json] of entries) {
    if (!stored.has(key)) life.entries.push([key, json]);
    else if (!key.endsWith("/started") || stored.get(key) !== json) expect.fail(`${key} is written twice`);
  }
  for (const [key, json] of entries) life.state?.fold(readEntry(key, json));
}

const ids = fc.constantFrom(
  "a",
  "b",
  "a_1",
  "failure",
  "notice",
  "purchase",
  "started",
  "result",
  "__proto__",
);
const inputs = fc.constantFrom<JsonObject>(
  { q: 1, r: 2 },
  { r: 2, q: 1 },
  { q: 2 },
  {},
  { question: "Which?" },
  { question: "Which?", default_answer: "this" },
);
const calls = fc
  .uniqueArray(ids, { minLength: 1, maxLength: 3 })
  .chain((names) =>
    fc.tuple(
      ...names.map((id) =>
        fc.tuple(fc.constant(id), fc.constantFrom("look", "write", "constructor", "ask_parent"), inputs),
      ),
    ),
  )
  .map((tuples) => tuples.map(([id, name, input]): ContentBlock => ({ type: "tool_use", id, name, input })));
const words = fc
  .constantFrom("", " \n", "an answer", "𝒶 longer answer", "a long answer ".repeat(40))
  .map((said) => ({ type: "text", text: said }));
const thinking = fc.constant<ContentBlock>({ type: "thinking", thinking: "hm", signature: "c2ln" });
const speech = fc
  .tuple(fc.array(thinking, { maxLength: 1 }), fc.array(words, { maxLength: 2 }))
  .map((parts) => parts.flat());
const pay = {
  inVain: fc.constantFrom(0, 0, 0, 0, 0, 0, 1, 1, 2, 6, 6),
  cutOff: fc.boolean(),
  tokens: fc.nat(40),
  cost: fc.nat(64),
};
const withCalls = fc.tuple(speech, calls).map((parts): ContentBlock[] => parts.flat());
const anyContent = fc.oneof(speech, withCalls);
const ends = ["end_turn", "stop_sequence", "max_tokens", "model_context_window_exceeded"];
const modelAnswer: fc.Arbitrary<ScriptedAnswer> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ ...pay, stop: fc.constant("tool_use"), content: withCalls }) },
  { weight: 3, arbitrary: fc.record({ ...pay, stop: fc.constantFrom(...ends), content: speech }) },
  { weight: 1, arbitrary: fc.record({ ...pay, stop: fc.constantFrom(...ends), content: anyContent }) },
  { weight: 1, arbitrary: fc.record({ ...pay, stop: fc.constant("pause_turn"), content: anyContent }) },
  {
    weight: 1,
    arbitrary: fc.record({
      ...pay,
      stop: fc.constantFrom("refusal", "tool_use", "odd", ""),
      content: speech,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      ...pay,
      stop: fc.constant("none"),
      content: fc.constant<ContentBlock[]>([]),
      failure: fc.constantFrom("context_window" as const, "model_error" as const),
    }),
  },
);
const sometimes = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 3 });

/** Anything that can happen to an agent. */
export const scripts: fc.Arbitrary<Script> = fc
  .record({
    max_turns: fc.integer({ min: 1, max: 8 }),
    max_duration_ms: fc.constantFrom(1, 50, 400, 1_800_000, 1_800_000, 1_800_000),
    max_total_tokens: sometimes(fc.integer({ min: 1, max: 300 })),
    max_cost: sometimes(fc.integer({ min: 1, max: 400 })),
    // A model that has one answer only says it again and again.
    answers: fc.oneof(
      { weight: 5, arbitrary: fc.array(modelAnswer, { minLength: 1, maxLength: 9 }) },
      { weight: 1, arbitrary: fc.array(modelAnswer, { minLength: 1, maxLength: 1 }) },
    ),
    mail: fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 4 }).map((at) => at.sort((a, b) => a - b)),
    crashes: fc.array(fc.nat(60), { maxLength: 4 }),
    finish: sometimes(fc.record({ run: fc.integer({ min: 1, max: 2 }), at: fc.nat(30) })),
    msPerEntry: fc.nat(12),
  })
  .map(({ max_turns, max_duration_ms, max_total_tokens, max_cost, ...script }) => ({
    ...script,
    rules: {
      limits: {
        max_turns,
        max_duration_ms,
        max_tokens: 100,
        ...(max_total_tokens !== undefined && { max_total_tokens }),
        ...(max_cost !== undefined && { max_cost_usd: max_cost / 1024 }),
      },
      model: "m",
      idempotentTools: new Set(["look"]),
      canAsk: true,
    },
  }));

/** The like with a small context window. What is left out depends on lengths, which a call that a crash cut off changes. */
export const fillingScripts: fc.Arbitrary<Script> = fc
  .tuple(scripts, fc.integer({ min: 1, max: 40 }))
  .map(([script, clearAtTokens]) => ({ ...script, rules: { ...script.rules, clearAtTokens } }));

/** The like, with a provider that refuses what is long. */
export const narrowScripts: fc.Arbitrary<Script> = fc
  .tuple(fillingScripts, fc.integer({ min: 800, max: 4_000 }))
  .map(([script, window]) => ({ ...script, window }));
