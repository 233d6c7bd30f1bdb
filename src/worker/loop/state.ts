/**
 * State of a run: everything `next` decides on, small. Entries of the log update it, one at a time. The run sets what the
 * log cannot know: the inbox, the time, a refusal by a provider or a budget.
 *
 * 1. Folding the entries as they are committed gives the same state as folding the stored log after a claim.
 * 2. The state may be ahead of Redis by entries that are on their way; nothing is performed on them before they are
 *    acknowledged (`run/`).
 */
import { isToolUse, type Usage } from "../../shared/protocol/content.ts";
import { type FailureEntry, LOG_MAX_BYTES, type VerdictEntry } from "../../shared/protocol/log.ts";
import { type InboxMessage, permittedCallOf } from "../../shared/protocol/message.ts";
import { readOutput } from "../../shared/protocol/output.ts";
import { calledTool } from "../../shared/protocol/permissions.ts";
import type { StopReason } from "../../shared/protocol/reply.ts";
import { isMuteEnd } from "./answer-echo.ts";
import { byId, Conversation } from "./conversation.ts";
import type { LogEntry } from "./log.ts";
import { REPETITION_NOTICE, Repetition, Tally } from "./tally.ts";

/** Number of useless paid calls in a row that ends the run. */
const MAX_USELESS_CALLS = 5;
/** Error sentence of the reply after that. */
export const PAID_IN_VAIN = "Five paid model calls in a row brought nothing that could be used.";

/** A tool call and its state. */
export interface CallState {
  id: string;
  name: string;
  input: unknown;
  /** Number of identical calls in a row, this one included. */
  repeats: number;
  isStarted: boolean;
  isAnswered: boolean;
  /** True if the parent was asked to permit it; `permission`: the parent's answer. */
  isPermissionAsked: boolean;
  permission?: string;
}

/** Stop reasons that the loop knows. Any other ends the run, because its meaning is unknown. */
const KNOWN_STOPS = [
  "end_turn",
  "stop_sequence",
  "tool_use",
  "pause_turn",
  "max_tokens",
  "refusal",
  "model_context_window_exceeded",
] as const;

/** Returns the stop reason if the loop knows it. */
export function knownStop(reason: string): (typeof KNOWN_STOPS)[number] | undefined {
  return KNOWN_STOPS.find((known) => known === reason);
}

/** The last answer of the run. */
export interface LastAnswer {
  /** Its number in the conversation. */
  message: number;
  /** Its number among the paid calls of the run, from 1. */
  turn: number;
  stopReason: string;
  refusal: string | undefined;
  finalCall: StopReason | undefined;
  usage: Usage;
  costUsd: number;
  calls: CallState[];
  /** True if it ended by itself without text. */
  isMute: boolean;
}

type Entry<Kind extends LogEntry["kind"]> = Extract<LogEntry, { kind: Kind }>;

/** See the module's header. */
export class RunState {
  /** Number of the run. */
  readonly run: number;
  readonly conversation = new Conversation();
  /** Number of entries of the log, and number of bytes that they count. */
  entries = 0;
  logBytes = 0;
  /** True if a message of this run has been delivered. */
  isBegun = false;
  /** True if the parent's messages in the pending user message have been delivered. */
  isDelivered = false;
  /** Paid model calls of the run: answers, summaries, and calls whose answer could not be used. */
  paidCalls = 0;
  /** Answers of the run, and summaries of its conversation. */
  turns = 0;
  last: LastAnswer | undefined;
  /** Verdict on the last answer as output; undefined before it was checked. */
  verdict: VerdictEntry | undefined;
  /** Number of final answers in a row that did not fit the output schema. */
  mismatches = 0;
  /** True if the last answer followed a nudge: the request for text after an empty answer. */
  isAfterNudge = false;
  repetition = new Repetition();
  tally = new Tally();
  /** The user message with which results were last omitted, or old messages summarised. */
  clearedAtMessage = -1;
  /** Summaries that were bought in the run. */
  compactions = 0;
  /** The last user message that begins with a notice from the runtime. */
  noticedAtMessage = -1;

  // Not from the log.

  /** Messages of the parent that no entry has consumed yet, and the number consumed before them; set by the session. */
  unread: readonly InboxMessage[] = [];
  inboxRead = 0;
  /** Running time of this run, ms; set by the session before each use. */
  elapsedMs = 0;
  /** True if the parent asked for a graceful end; set by the session. */
  finish = false;
  /** Budget without room for another ordinary call: its cap, and whom it binds. Set by `reserveCall`. */
  overBudget: { cap: "max_total_tokens" | "max_cost"; of?: "agent" | "parent" | "tenant" } | undefined;
  /** The pending user message with which the provider found the request too long; set after the failure of a call. */
  tooLongAtMessage = -1;

  // From the log, or set from outside before the log has it.

  /** Reason why the next message of the model will never come; also set if a hook keeps the run from beginning. */
  failure: FailureEntry | undefined;
  /** Number of a message: the summary of all messages before it failed, so the next one covers fewer. Also set by `failure.ts`. */
  unsummedAtMessage = Number.POSITIVE_INFINITY;

  /** Number of the pending user message of the conversation. */
  #at = 0;
  #callById: ReadonlyMap<string, CallState> = new Map();
  #lastRun: number | undefined;
  /** Highest number of a message that was sent, tried or paid for. */
  #lastUsed = -1;
  #uselessCalls = 0;
  #uselessBefore = 0;
  #refusedCalls = 0;
  /** Entries after a gap in the log, by message. */
  #later: Map<number, LogEntry[]> | undefined;

  /** Creates the state of run `run` of an agent whose log is `entries`, in the order of its messages. */
  constructor(run: number, entries: readonly LogEntry[] = []) {
    this.run = run;
    for (const entry of entries) this.fold(entry);
  }

  /**
   * Number of the next user message, or of the one that waits for the model. A run can end with its last message
   * unanswered. Entries are written once, so the next run continues after the last number used.
   */
  get userMessageNumber(): number {
    return this.isBegun ? this.#at : 2 * Math.floor(this.#lastUsed / 2) + 2;
  }

  /** True if too many paid calls in a row brought nothing. */
  get hasWastedTooManyCalls(): boolean {
    return this.#uselessCalls >= MAX_USELESS_CALLS;
  }

  /** True if the log takes no further turn. */
  get isLogFull(): boolean {
    return this.logBytes >= LOG_MAX_BYTES;
  }

  /** JSON value of the last answer if it was found to fit, null included; otherwise undefined. */
  get output(): unknown {
    if (this.verdict?.fits !== true) return undefined;
    const read = readOutput(this.tally.text);
    return read.status === "json" ? read.value : undefined;
  }

  /** Updates the state by an entry that was committed, or is about to be. */
  fold(entry: LogEntry): void {
    this.entries += 1;
    this.logBytes += entry.bytes;
    this.#applyOrKeep(entry);
    while (this.#later && this.#later.size > 0 && this.#catchUp());
  }

  #applyOrKeep(entry: LogEntry): void {
    if (this.#apply(entry)) return;
    this.#later ??= new Map();
    const kept = this.#later.get(entry.message);
    if (kept) kept.push(entry);
    else this.#later.set(entry.message, [entry]);
  }

  /** Returns false if an entry before this one is missing. */
  #apply(entry: LogEntry): boolean {
    switch (entry.kind) {
      case "delivery":
        return this.#deliver(entry);
      case "notice":
        if (entry.message !== this.#at) return false;
        this.noticedAtMessage = entry.message;
        this.conversation.notice(entry.textJson);
        return true;
      case "answer":
        return this.#answer(entry);
      case "started":
        return this.#start(entry);
      case "result":
        return this.#result(entry);
      case "failure":
        return this.#fail(entry);
      case "purchase":
        return this.#purchase(entry);
      case "verdict":
        return this.#applyVerdict(entry);
      case "cleared":
        return this.#clear(entry);
      case "compacted":
        return this.#compact(entry);
    }
  }

  #deliver({ message, run, partsJson }: Entry<"delivery">): boolean {
    this.#lastUsed = Math.max(this.#lastUsed, message);
    if (this.isBegun && message !== this.#at) return false;
    this.#reach(message);
    const beginsRun = run !== this.#lastRun;
    if (beginsRun) this.#begin(run);
    this.conversation.deliver(message, partsJson, beginsRun);
    this.mismatches = 0;
    this.isDelivered = this.isBegun;
    return true;
  }

  /** Begins a run: calls of earlier runs are no part of its repetitions. */
  #begin(run: number): void {
    this.#lastRun = run;
    this.isBegun = run === this.run;
    this.repetition = new Repetition();
  }

  #answer(entry: Entry<"answer">): boolean {
    const { message, content } = entry;
    this.#lastUsed = Math.max(this.#lastUsed, message);
    if (this.isBegun && message !== this.#at + 1) return false;
    this.#reach(message - 1);
    const calls: CallState[] = [];
    for (const block of content.filter(isToolUse)) {
      const { name, input } = calledTool(block.name, block.input);
      const repeats = this.repetition.count({ name, input });
      const { id } = block;
      calls.push({ id, name, input, repeats, isStarted: false, isAnswered: false, isPermissionAsked: false });
    }
    const isMute = isMuteEnd(entry);
    const repeats = calls.some((call) => call.repeats === REPETITION_NOTICE);
    this.conversation.answer(message, entry, { repeats, isMute });
    this.#at = message + 1;
    if (this.isBegun) this.#turn(entry, calls, isMute);
    return true;
  }

  #turn(entry: Entry<"answer">, calls: CallState[], isMute: boolean): void {
    const { message, stopReason, refusal, finalCall, usage, costUsd } = entry;
    this.paidCalls += 1;
    this.turns += 1;
    this.tally.answer(entry);
    this.isAfterNudge = this.last?.isMute === true && !this.isDelivered;
    const turn = this.paidCalls;
    this.last = { message, turn, stopReason, refusal, finalCall, usage, costUsd, calls, isMute };
    this.#callById = byId(calls);
    this.isDelivered = false;
    this.verdict = undefined;
    this.unsummedAtMessage = Number.POSITIVE_INFINITY;
    this.#uselessBefore = this.#uselessCalls;
    this.#uselessCalls = 0;
    this.#refusedCalls = 0;
  }

  #start(entry: Entry<"started">): boolean {
    if (entry.message !== this.#at - 1) return false;
    this.conversation.begin(entry.callId);
    const call = this.#callOf(entry);
    if (!call) {
      const asked = this.#permissionOf(entry);
      if (asked) asked.isPermissionAsked = true;
      return true;
    }
    // A call that is repeated already has its mark.
    if (call.isStarted) {
      this.entries -= 1;
      this.logBytes -= entry.bytes;
    } else this.tally.call(call.name);
    call.isStarted = true;
    return true;
  }

  #result(entry: Entry<"result">): boolean {
    const { message, callId, contentJson, isError, isRefused, isDenied } = entry;
    if (message !== this.#at - 1) return false;
    this.conversation.result(callId, contentJson, isError);
    const call = this.#callOf(entry);
    if (!call) {
      const asked = this.#permissionOf(entry);
      if (asked) asked.permission = String(JSON.parse(contentJson));
      return true;
    }
    const isCounted = !isRefused && !isDenied;
    if (!call.isStarted && isCounted) this.tally.call(call.name);
    // A hook denied the call after its mark.
    if (call.isStarted && !isCounted) this.tally.uncall(call.name);
    if (!isError) this.tally.succeed(call.name);
    call.isAnswered = true;
    if (isRefused) this.#refuse();
    return true;
  }

  /** Counts a refused call. An answer with nothing but refused calls is useless. */
  #refuse(): void {
    this.#refusedCalls += 1;
    if (this.#refusedCalls === this.last?.calls.length) this.#uselessCalls = this.#uselessBefore + 1;
  }

  #applyVerdict({ message, value }: Entry<"verdict">): boolean {
    if (message !== this.#at - 1) return false;
    if (!value.fits) this.conversation.correct(value.problem ?? "it does not fit");
    if (this.last?.message !== message) return true;
    this.verdict = value;
    if (!value.fits) this.mismatches += 1;
    return true;
  }

  #clear({ message, value }: Entry<"cleared">): boolean {
    if (message > this.#at) return false;
    this.conversation.clear(value.through, value.go_on === true && message === this.#at);
    this.#makesRoom(message);
    return true;
  }

  #compact({ message, value }: Entry<"compacted">): boolean {
    this.#lastUsed = Math.max(this.#lastUsed, message);
    if (message > this.#at) return false;
    this.conversation.compact(value.before, value.summary, value.go_on === true && message === this.#at);
    this.#makesRoom(message);
    if (!this.isBegun) return true;
    this.tally.spend(value.usage, value.cost_usd);
    this.paidCalls += 1;
    this.turns += 1;
    this.compactions += 1;
    return true;
  }

  #makesRoom(message: number): void {
    this.clearedAtMessage = message;
    this.tooLongAtMessage = -1;
  }

  #callOf({ message, callId }: { message: number; callId: string }): CallState | undefined {
    return this.last?.message === message ? this.#callById.get(callId) : undefined;
  }

  /** Returns the call that a permission entry is about: no call has the entry's own id. */
  #permissionOf({ message, callId }: { message: number; callId: string }): CallState | undefined {
    const id = permittedCallOf(callId);
    return id === undefined ? undefined : this.#callOf({ message, callId: id });
  }

  #fail({ message, value }: Entry<"failure">): boolean {
    this.#lastUsed = Math.max(this.#lastUsed, message);
    if (!this.isBegun) return true;
    if (message !== this.#at + 1) return false;
    this.failure = value;
    return true;
  }

  #purchase({ message, value }: Entry<"purchase">): boolean {
    this.#lastUsed = Math.max(this.#lastUsed, message);
    if (!this.isBegun) return true;
    this.tally.spend(value.usage, value.cost_usd);
    if (value.cut_off) return true;
    this.paidCalls += 1;
    this.#uselessCalls += 1;
    this.unsummedAtMessage = Math.min(this.unsummedAtMessage, value.sums_up ?? this.unsummedAtMessage);
    return true;
  }

  /** Skips user messages before `message` that got no answer: earlier runs ended with them. */
  #reach(message: number): void {
    while (this.#at < message) {
      this.conversation.skip();
      this.#at += 2;
      this.#applyKept(this.#at);
    }
  }

  /** Applies the kept entries that come next; returns false if there are none. */
  #catchUp(): boolean {
    const at = this.#at;
    for (const message of [at - 1, at, at + 1]) this.#applyKept(message);
    return this.#at !== at;
  }

  #applyKept(message: number): void {
    const kept = this.#later?.get(message);
    if (!kept) return;
    this.#later?.delete(message);
    for (const entry of kept) this.#applyOrKeep(entry);
  }
}
