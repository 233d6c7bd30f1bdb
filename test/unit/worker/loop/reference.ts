/**
 * What the loop's state must come to, computed anew from the stored entries alone: the specification that the state which
 * moves on entry by entry is held against. Slow and plain on purpose; shares no code with `src/worker/loop` but its words.
 */
import {
  addUsage,
  type ContentBlock,
  isText,
  isToolUse,
  textOf,
  totalTokens,
  ZERO_USAGE,
} from "../../../../src/shared/protocol/content.ts";
import {
  AssistantEntry,
  ClearedEntry,
  CompactedEntry,
  EntryKey,
  FailureEntry,
  NoticeEntry,
  PurchaseEntry,
  ToolResultEntry,
  UserEntry,
} from "../../../../src/shared/protocol/log.ts";
import { type CapReason, type StopReason, wellFormedJson } from "../../../../src/shared/protocol/reply.ts";
import { finalCallPrompt } from "../../../../src/worker/loop/conversation.ts";
import type { ModelMessage } from "../../../../src/worker/model/model.ts";

/** The stored entries, filed by kind. */
export interface Filed {
  deliveries: Map<number, UserEntry>;
  turns: Map<number, AssistantEntry>;
  started: Set<string>;
  results: Map<string, ToolResultEntry>;
  failures: Map<number, FailureEntry>;
  notices: Map<number, string>;
  purchases: (PurchaseEntry & { message: number })[];
  cleared: (ClearedEntry & { message: number })[];
  compacted: (CompactedEntry & { message: number })[];
}

type Call = {
  id: string;
  name: string;
  input: unknown;
  started: boolean;
  result: ToolResultEntry | undefined;
};
type ReferenceTurn = { message: number; entry: AssistantEntry; text: string; calls: Call[] };

export function fileAll(stored: Iterable<readonly [string, string]>): Filed {
  const filed: Filed = {
    deliveries: new Map(),
    turns: new Map(),
    started: new Set(),
    results: new Map(),
    failures: new Map(),
    notices: new Map(),
    purchases: [],
    cleared: [],
    compacted: [],
  };
  for (const [key, json] of stored) {
    const { message: n, kind, callId } = EntryKey.parse(key);
    const value: unknown = JSON.parse(json);
    if (kind === "started") filed.started.add(`${n}/${callId}`);
    else if (kind === "result") filed.results.set(`${n}/${callId}`, ToolResultEntry.parse(value));
    else if (kind === "failure") filed.failures.set(n, FailureEntry.parse(value));
    else if (kind === "notice") filed.notices.set(n, NoticeEntry.parse(value).text);
    else if (kind === "cleared") filed.cleared.push({ ...ClearedEntry.parse(value), message: n });
    else if (kind === "compacted") filed.compacted.push({ ...CompactedEntry.parse(value), message: n });
    else if (kind === "purchase") filed.purchases.push({ ...PurchaseEntry.parse(value), message: n });
    else if (n % 2 === 0) filed.deliveries.set(n, UserEntry.parse(value));
    else filed.turns.set(n, AssistantEntry.parse(value));
  }
  return filed;
}

function turnOf({ started, results }: Filed, n: number, entry: AssistantEntry): ReferenceTurn {
  const calls = entry.content.filter(isToolUse).map(({ id, name, input }) => ({
    id,
    name,
    input,
    started: started.has(`${n}/${id}`),
    result: results.get(`${n}/${id}`),
  }));
  return { message: n, entry, text: textOf(entry.content), calls };
}

function viewOf(filed: Filed, run: number) {
  const { deliveries, turns, failures, purchases, compacted } = filed;
  const own = [...deliveries].filter(([, delivery]) => delivery.run === run).map(([n]) => n);
  const used = [
    ...deliveries.keys(),
    ...turns.keys(),
    ...failures.keys(),
    ...[...purchases, ...compacted].map((bought) => bought.message),
  ];
  const firstMessage = own.length > 0 ? Math.min(...own) : undefined;
  let userMessageNumber = firstMessage ?? 2 * Math.floor(Math.max(-1, ...used) / 2) + 2;
  const view: ReferenceTurn[] = [];
  for (let entry = turns.get(userMessageNumber + 1); entry; entry = turns.get(userMessageNumber + 1)) {
    view.push(turnOf(filed, userMessageNumber + 1, entry));
    userMessageNumber += 2;
  }
  return { firstMessage, userMessageNumber, turns: view, delivered: deliveries.has(userMessageNumber) };
}

const NUDGE = "Your last message was empty. Write your final answer now, as text.";
const GO_ON =
  "Your last message was cut off: the conversation had become too long. What is old was left out of it. Go on.";
const REPEATED =
  "You have made the same tool call 3 times in a row. Do something else, or write your final answer.";

/** The messages of the next call of run `run`, as JSON without the brackets. */
export function conversationJson(filed: Filed, run: number, finalCall?: CapReason): string {
  return wellFormedJson(JSON.stringify(conversationOf(filed, run, finalCall))).slice(1, -1);
}

function conversationOf(filed: Filed, run: number, finalCall?: CapReason): ModelMessage[] {
  const messages: ModelMessage[] = [];
  const usedIds = new Set<string>();
  const end = viewOf(filed, run).userMessageNumber;
  const through = Math.max(
    -1,
    ...filed.cleared.filter(({ message }) => message <= end).map((c) => c.through),
  );
  const goesOn = (n: number) =>
    [...filed.cleared, ...filed.compacted].some(({ message, go_on }) => message === n && go_on);
  const summed = filed.compacted.filter(({ message }) => message <= end);
  let current: number | undefined;
  let made: Call[] = [];
  let last: { turn: ReferenceTurn; repeats: boolean; results: ContentBlock[] } | undefined;
  for (let n = 0; n <= end; n += 2) {
    const delivery = filed.deliveries.get(n);
    const startsRun = delivery !== undefined && delivery.run !== current;
    if (startsRun) {
      current = delivery.run;
      made = [];
    }
    const entry = n < end ? filed.turns.get(n + 1) : undefined;
    const remarksOn = !startsRun && (n === end || entry) ? last : undefined;
    const cause = n === end ? finalCall : entry?.hand_back;
    const said = [filed.notices.get(n) ?? "", ...(remarksOn?.repeats ? [REPEATED] : [])];
    if (goesOn(n) && !startsRun && (n === end || entry) && !cause) said.push(GO_ON);
    for (const { text } of delivery?.messages ?? []) said.push(text);
    if (remarksOn && !cause && !delivery && isMute(remarksOn.turn)) said.push(NUDGE);
    if (cause) said.push(finalCallPrompt(cause));
    const words = said.filter((text) => text.trim() !== "");
    add(messages, "user", [...(last?.results ?? []), ...words.map((text) => ({ type: "text", text }))]);
    last = undefined;
    if (!entry) continue;
    const turn = turnOf(filed, n + 1, entry);
    let repeats = false;
    for (const call of turn.calls) {
      made.push(call);
      repeats ||= identicalAtEnd(made) === 3;
    }
    const sent = sentBack(turn, usedIds);
    if (turn.message <= through)
      sent.results = sent.results.map((block, i) => shorterOf(block, turn.calls[i]));
    last = { turn, repeats, results: sent.results };
    const summary = summed.find(({ before }) => before === turn.message);
    // Where the log lacks what was said just before, the summary stands for nothing.
    if (summary && sent.content.length > 0 && messages.at(-1)?.role === "user")
      messages.splice(0, messages.length, headOf(filed, summary));
    add(messages, "assistant", sent.content);
  }
  return messages;
}

/** What a summary leaves of what was said before: the words with which the run began in which it was bought, and itself. */
function headOf({ deliveries }: Filed, summary: Filed["compacted"][number]): ModelMessage {
  const said = [...deliveries].sort(([a], [b]) => a - b);
  const run = said.findLast(([n]) => n <= summary.message)?.[1].run;
  const [at, opening] = said.find(([, delivery]) => delivery.run === run) ?? [0, undefined];
  const texts = at < summary.before ? (opening?.messages ?? []).map((each) => each.text) : [];
  texts.push(
    `[This conversation had become too long: what came before is left out. Your own summary of it:]\n\n${summary.summary}\n\n[What came after it follows.]`,
  );
  return { role: "user", content: texts.map((text) => ({ type: "text", text })) };
}

function add(messages: ModelMessage[], role: ModelMessage["role"], content: ContentBlock[]): void {
  const last = messages.at(-1);
  if (content.length === 0) return;
  if (last?.role === role) last.content = [...last.content, ...content];
  else messages.push({ role, content });
}

function sentBack(turn: ReferenceTurn, usedIds: Set<string>) {
  const ids = turn.calls.map(({ id }) => {
    const wanted = spelled(id);
    let unused = wanted;
    for (let k = turn.message; usedIds.has(unused); k++) unused = `${wanted}_${k}`;
    usedIds.add(unused);
    return unused;
  });
  const kept = turn.entry.content.filter((block) => !isText(block) || block.text.trim() !== "");
  while (["thinking", "redacted_thinking"].includes(kept.at(-1)?.type ?? "")) kept.pop();
  let position = 0;
  const content = kept.map((block) =>
    isToolUse(block)
      ? { ...block, id: ids[position++] ?? "", name: spelled(block.name).slice(0, 128) }
      : block,
  );
  const results = turn.calls.map(({ result }, i): ContentBlock => {
    const isCutOff = turn.calls[i]?.started === true && turn.calls[i]?.name !== "ask_parent";
    const missing = isCutOff
      ? "Interrupted: the run ended during this call and its effect is unknown. Check before you repeat it."
      : "Not executed: the answer that asked for this call was cut off or the run ended first.";
    return {
      type: "tool_result",
      tool_use_id: ids[i] ?? "",
      content: result?.content ?? missing,
      ...((result?.is_error ?? true) && { is_error: true }),
    };
  });
  return { content, results };
}

/** A result that is left out: one line in its place, where that is shorter by 200 characters. */
function shorterOf(block: ContentBlock, call: Call | undefined): ContentBlock {
  const points = [...(JSON.stringify(call?.input) ?? "")];
  const shown = points.slice(0, 120).join("") + (points.length > 120 ? "…" : "");
  const name = spelled(call?.name ?? "").slice(0, 128);
  const content = `[Left out to make room: the result of ${name} ${shown}. Call it again if you need it.]`;
  const { is_error: _, ...rest } = { is_error: false, ...block };
  const stub = { ...rest, content };
  return JSON.stringify(block).length - JSON.stringify(stub).length >= 200 ? stub : block;
}

function spelled(name: string): string {
  return name === "" ? "_" : name.replace(/[^a-zA-Z0-9_-]/g, "_");
}

function isMute({ entry, text }: ReferenceTurn): boolean {
  return ["end_turn", "stop_sequence"].includes(entry.stop_reason) && text.trim() === "";
}

/** How many of the last calls are the same one. */
function identicalAtEnd(calls: readonly Call[]): number {
  const spell = ({ name, input }: Call) => JSON.stringify([name, sorted(input)]);
  const last = calls.at(-1);
  let count = 0;
  while (last && count < calls.length && spell(calls.at(-1 - count) ?? last) === spell(last)) count++;
  return count;
}

function sorted(value: unknown): unknown {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return ["list", ...value.map(sorted)];
  return Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, member]) => [key, sorted(member)]);
}

/** What run `run` has come to. */
export function sumsOf(filed: Filed, run: number) {
  const { firstMessage, userMessageNumber, turns, delivered } = viewOf(filed, run);
  const inVain = filed.purchases.filter(
    ({ message }) => firstMessage !== undefined && message > firstMessage,
  );
  const summaries = filed.compacted.filter(
    ({ message }) => firstMessage !== undefined && message >= firstMessage && message <= userMessageNumber,
  );
  const bought = [...turns.map(({ entry }) => entry), ...inVain, ...summaries];
  const calls = turns.flatMap((turn) => turn.calls);
  const counted = calls.filter(({ started, result }) =>
    result?.refused || result?.denied ? false : started || result,
  );
  const failure: FailureEntry | undefined = filed.failures.get(userMessageNumber + 1);
  const barrenAnswers = turns.map(
    ({ calls: of }) => of.length > 0 && of.every((call) => call.result?.refused),
  );
  const paid = inVain.filter(({ cut_off }) => !cut_off);
  return {
    isBegun: firstMessage !== undefined,
    userMessageNumber,
    isDelivered: firstMessage !== undefined && delivered,
    paidCalls: turns.length + summaries.length + paid.length,
    turns: turns.length + summaries.length,
    compactions: summaries.length,
    usage: bought.reduce((sum, { usage }) => addUsage(sum, usage), ZERO_USAGE),
    tokens: bought.reduce((sum, { usage }) => sum + totalTokens(usage), 0),
    costUsd: bought.reduce((sum, { cost_usd }) => sum + cost_usd, 0),
    calls: countByName(counted),
    succeeded: countByName(calls.filter(({ result }) => result?.is_error === false)),
    text: turns.findLast(({ text }) => text.trim() !== "")?.text ?? "",
    model: turns.at(-1)?.entry.model,
    isOver: turns.length > 0 && calls.some((_, i) => identicalAtEnd(calls.slice(0, i + 1)) >= 5),
    failure,
    finalCall: turns.at(-1)?.entry.hand_back satisfies StopReason | undefined,
    hasWastedTooManyCalls: barrenCallsAtEnd(turns, barrenAnswers, paid) >= 5,
    open: (turns.at(-1)?.calls ?? []).map(({ id, started, result }) => ({ id, started, answered: !!result })),
  };
}

/** What the entries of a log count for. */
export function bytesOf(stored: Iterable<readonly [string, string]>): number {
  return [...stored].reduce((sum, [key, json]) => sum + Buffer.from(key + json).length + 512, 0);
}

function barrenCallsAtEnd(
  turns: readonly ReferenceTurn[],
  barrenAnswers: readonly boolean[],
  paid: readonly { message: number }[],
): number {
  const lastFruitful = barrenAnswers.lastIndexOf(false);
  const since = turns[lastFruitful]?.message ?? -1;
  return turns.length - 1 - lastFruitful + paid.filter(({ message }) => message > since).length;
}

function countByName(calls: readonly Call[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const { name } of calls) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
}
