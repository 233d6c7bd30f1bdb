/**
 * One claimed run in this process: where it stands, and the commits that bring it on.
 * Owns the state in memory and what is still to be committed; Redis owns the truth, and holds every write against its fence.
 *
 * 1. A tool runs only after Redis has the answer that asks for it, and a model call only after it has every answer, result and
 *    summary before; messages, notices and verdicts may still be on their way, and the next commit takes them along.
 * 2. Each alert is told once, with the commit that crossed its threshold, also after a change of workers.
 * 3. After `lost` nothing is written any more, and the lease is over: nothing else of the run goes on either.
 */
import { SubagentError } from "../../shared/errors.ts";
import { lastOf } from "../../shared/hidden-class.ts";
import type { AgentRecord } from "../../shared/protocol/agent.ts";
import type { Usage } from "../../shared/protocol/content.ts";
import type { AgentAddress } from "../../shared/protocol/keys.ts";
import type { OpenQuestion } from "../../shared/protocol/message.ts";
import { type Alert, eventLine, type ReplyBody, type RunEvent } from "../../shared/protocol/reply.ts";
import type { AgentState, AgentStore } from "../../shared/redis/agent-store.ts";
import type { VerbInput } from "../../shared/redis/scripts.ts";
import { StopSignal } from "../../shared/stop-signal.ts";
import { type LogEntry, type NewEntry, newPurchase, newQuestionMark, readLog } from "../loop/log.ts";
import { next, type Step } from "../loop/next.ts";
import {
  progressUpdate,
  type RunRules,
  replyBody,
  type TextInRecord,
  textIn,
  withQuestions,
} from "../loop/reply-body.ts";
import { RunState } from "../loop/state.ts";
import type { Equipment } from "./context.ts";
import type { HolderStatus, Lease } from "./lease.ts";
import { NextPurchase, type UpcomingPurchase } from "./purchase.ts";
import type { LeftFiles } from "./run-workspace.ts";

/** What became of a commit: `adopted` means that another content had been committed before, and stands. */
export type CommitOutcome = "committed" | "adopted" | "lost";

/** An interim message for the parent. */
export interface InterimMessage {
  id: string;
  body: string;
}

/** What one commit takes along, and leaves known. `advances`: the run comes further; `entriesAfter`: so many the log has then. */
export interface PreparedCommit {
  input: CommitInput;
  entries: readonly NewEntry[];
  events: readonly RunEvent[];
  advances: boolean;
  entriesAfter: number;
  /** What the run has come to, where the commitment carries it, and what the record has of its last text then. */
  update: { progress: ReplyBody; text: TextInRecord } | undefined;
}

/** The commitment of a run that ends. */
export type LastCommit = PreparedCommit & { update: NonNullable<PreparedCommit["update"]> };

/** Messages that are consumed but still lie in Redis' inbox: from which cursor to which, their ids, and names of what came with them. */
interface Consumed {
  from: number;
  to: number;
  ids: readonly string[];
  attached: readonly string[];
}

/** What the verb that commits is told; an interim message and the purchase that follows are filled in last. */
type CommitInput = VerbInput<"append">;

/** See the module's header. */
export class Session {
  readonly address: AgentAddress;
  readonly record: AgentRecord;
  readonly lease: Lease;
  readonly equipment: Equipment;
  readonly rules: RunRules;
  /** The model of the call that is made now, or was made last. */
  model: string;
  /** Stops tools: with the lease, with the process, or when their time is over. */
  readonly toolStop = new StopSignal();
  /** Provider failures since the run last advanced; a call paid for in vain brings nothing. */
  attempts: number;
  /** How often in a row the run has broken off before it advanced. */
  breaks: number;
  isWatched: boolean;
  /** Whether the model was told of a budget that is nearly used. */
  isToldOfBudget = false;
  /** What stands in the workspace at the end of the run. */
  left: LeftFiles = {};
  hasAdvanced = false;
  readonly #store: AgentStore;
  /** Where the run stands; how long it has run is measured when it is asked what comes next, or for its body. */
  state: RunState;
  /** Entries that Redis has acknowledged, and those still to be committed. */
  #acknowledged: number;
  #pending: NewEntry[] = [];
  /** Whether something of it must not be done again. */
  isCommitDue = false;
  /** Told, and not in Redis yet. */
  events: RunEvent[] = [];
  #turnStarted = 0;
  #consumed: Consumed | undefined;
  /** Interim messages sent in this run; counted from the log when the first one of this claim is sent. */
  #interims: number | undefined;
  #inboxInRedis: number;
  #alerts: readonly Alert[];
  #purchases = 0;
  /** Answers and purchases that no commit has taken to Redis yet. */
  #unbooked: NewEntry[] = [];
  readonly purchase: NextPurchase;
  /** What the run has come to as Redis holds it. */
  committed: ReplyBody | undefined;
  #text: TextInRecord | undefined;

  constructor(
    store: AgentStore,
    lease: Lease,
    claimed: Omit<AgentState, "log"> & { entries: readonly LogEntry[]; watched: boolean },
    equipment: Equipment,
  ) {
    this.purchase = new NextPurchase(lease.address.uid, lease.claimId, lease.epoch);
    const { record, inbox, entries, watched } = claimed;
    this.#store = store;
    this.address = lease.address;
    this.record = record;
    this.lease = lease;
    this.equipment = equipment;
    this.rules = equipment.rules;
    this.model = equipment.rules.model;
    this.attempts = record.attempts;
    this.breaks = record.breaks;
    this.isWatched = watched;
    this.#inboxInRedis = inbox.length;
    this.#alerts = record.progress?.alerts ?? [];
    this.committed = record.progress;
    this.#text = textIn(record);
    this.state = new RunState(record.run, entries);
    this.state.unread = inbox;
    this.state.inboxRead = record.inbox_read;
    this.state.finish = record.finish;
    this.#acknowledged = this.state.entries;
    lease.onStatus = (status) => this.applyStatus(status);
    lease.workStop.onStop(() => this.toolStop.stop());
    lastOf.session = this;
  }

  /** What the run does next. */
  next(): Step {
    this.state.elapsedMs = this.lease.runningMs();
    return next(this.state, this.rules);
  }

  /** Whether Redis holds other unread messages than are known here. */
  get isInboxStale(): boolean {
    return this.#inboxInRedis !== this.state.unread.length;
  }

  /** What the run has come to so far. */
  body(): ReplyBody {
    this.state.elapsedMs = this.lease.runningMs();
    return Object.assign(replyBody(this.state, this.rules), this.left);
  }

  /** Takes in what a renewal or a commit brought along. */
  applyStatus({ inbox, finish, watched }: HolderStatus): void {
    this.#inboxInRedis = inbox - this.#consumedHere;
    this.state.finish = finish;
    this.isWatched = watched;
  }

  get #consumedHere(): number {
    return this.#consumed ? this.#consumed.to - this.#consumed.from : 0;
  }

  /** Reads the unread messages again. */
  async refreshInbox(): Promise<void> {
    this.state.unread = (await this.#store.inbox(this.address)).slice(this.#consumedHere);
    this.#inboxInRedis = this.state.unread.length;
  }

  /**
   * Adds entries that the next commit takes along: before tools run, before the next call, a question or a release; the last ones
   * go with `settle`. `isDue`: what they stand for must not be done again.
   */
  add(entries: readonly NewEntry[], isDue = true): void {
    for (const entry of entries) {
      this.#pending.push(entry);
      if (BOUGHT.has(entry.entry.kind)) this.#unbooked.push(entry);
      this.state.fold(entry.entry);
    }
    if (entries.length > 0) this.isCommitDue ||= isDue;
  }

  /** The unread messages up to `to`, with these ids, and what came with them are consumed by the next commit. */
  consume(to: number, ids: readonly string[], attached: readonly string[] = []): void {
    const { from = this.state.inboxRead, ids: before = [], attached: earlier = [] } = this.#consumed ?? {};
    this.#consumed = { from, to, ids: [...before, ...ids], attached: [...earlier, ...attached] };
    this.state.unread = this.state.unread.slice(to - this.state.inboxRead);
    this.state.inboxRead = to;
    this.#inboxInRedis = this.state.unread.length;
  }

  /** A call that was paid for although no message came of it; `isCutOff`: this side ended it. */
  addUnusedCall(message: number, usage: Usage, costUsd: number, isCutOff: boolean, sums_up?: number): void {
    const why = { ...(isCutOff && { cut_off: true }), ...(sums_up !== undefined && { sums_up }) };
    const entry = { v: 1 as const, usage, cost_usd: costUsd, ...why };
    this.add([newPurchase(message, this.lease.epoch, this.#purchases++, entry)]);
  }

  /** Tells an event: it is part of the next commit's line. */
  tell(event: RunEvent): void {
    this.events.push(event);
  }

  /** Tells that turn `turn` begins, once. */
  tellTurnStarted(turn: number): void {
    if (this.#turnStarted >= turn) return;
    this.#turnStarted = turn;
    this.tell({ type: "turn_started", turn });
  }

  /** Takes one of the interim messages of the run; false when none of the `most` is left. */
  takeInterim(tool: string, most: number): boolean {
    this.#interims ??= this.state.tally.succeeded.get(tool) ?? 0;
    if (this.#interims >= most) return false;
    this.#interims += 1;
    return true;
  }

  /** What was paid for and, as far as this side knows, stands neither in the log nor in a counter; one commit takes all of it. */
  get unbooked(): readonly NewEntry[] {
    return this.#unbooked;
  }

  /** Commits what was added, all or none; other content in Redis is adopted. */
  async commit(along: UpcomingPurchase & { interim?: InterimMessage } = {}): Promise<CommitOutcome> {
    if (this.#pending.length === 0) return "committed";
    if (!this.lease.isLive()) return "lost";
    const commitment = this.prepareCommit(false);
    const { input } = commitment;
    const update = this.purchase.updateFor(this.state.last, commitment.entriesAfter, along);
    input.begun = update?.begun;
    input.no_purchase = update?.no_purchase;
    input.interim_id = along.interim?.id;
    input.interim = along.interim?.body;
    const answer = await this.#store.append(this.address, input);
    if (answer.status === "stale") return this.lose();
    if (answer.status === "conflict") return this.adopt(commitment);
    this.purchase.committed(commitment.entries, update);
    await this.#acknowledge(commitment);
    this.applyStatus(answer);
    return "committed";
  }

  /** Puts questions to the parent; `finishing`: it wants the run to end instead. Afterwards no process holds the agent. */
  async ask(
    questions: readonly OpenQuestion[],
    answerMs: number,
    events: readonly RunEvent[],
  ): Promise<"asked" | "finishing" | "lost"> {
    if (!this.lease.isLive()) return "lost";
    const marks = questions.map(({ question_id }) => newQuestionMark(question_id));
    const answer = await this.#store.ask(this.address, {
      epoch: this.lease.epoch,
      known: this.#acknowledged,
      running_ms: this.lease.runningMs(),
      run: this.record.run,
      answer_ms: answerMs,
      log_bytes: marks.reduce((sum, { entry }) => sum + entry.bytes, this.state.logBytes),
      questions: questions.map(
        ({ question_id, text, default_answer = "" }, i) =>
          [question_id, marks[i]?.json ?? "", text, default_answer] as const,
      ),
      events: eventLine([...this.events, ...events]),
      ...progressUpdate(withQuestions(this.body(), questions), this, this.#text, false).args,
    });
    if (answer.status === "finishing") {
      this.state.finish = true;
      return "finishing";
    }
    if (answer.status === "stale") return this.lose();
    this.lease.end("given_up");
    await this.equipment.trace?.(this.record.run, marks);
    return "asked";
  }

  /** After `settle` has written the commitment. `status` is given if the run goes on; events without an entry are told later. */
  async settled(commitment: PreparedCommit, status?: HolderStatus): Promise<void> {
    if (status && commitment.entriesAfter === this.#acknowledged) this.events.unshift(...commitment.events);
    this.purchase.committed(commitment.entries);
    await this.#acknowledge(commitment);
    if (status) this.applyStatus(status);
  }

  /** Redis refused a write. The renewal shows why: another worker holds the run, or none does, for Redis lost part of the log. */
  async lose(): Promise<"lost"> {
    await this.lease.renew();
    this.lease.end("expired");
    return "lost";
  }

  /** Takes what is still to be committed; `isLast`: for `settle` to take along, with what the run has come to. */
  prepareCommit(isLast: true): LastCommit;
  prepareCommit(isLast: boolean): PreparedCommit;
  prepareCommit(isLast: boolean): PreparedCommit {
    const entries = this.#pending;
    // What a call counts for is counted when it begins: results change no counter.
    const body = isLast || entries.some(({ entry }) => entry.kind !== "result") ? this.body() : undefined;
    if (body) this.#tellAlerts(body);
    // A commit that adds no entry carries no events: the script takes it for one that was sent twice.
    const events = isLast || this.state.entries > this.#acknowledged ? this.events.splice(0) : [];
    const consumed = this.#consumed;
    this.#pending = [];
    this.isCommitDue = false;
    const advances = entries.some(({ entry }) => ADVANCING.has(entry.kind));
    const update = body && progressUpdate(body, this, this.#text, isLast);
    const input: CommitInput = {
      epoch: this.lease.epoch,
      known: this.#acknowledged,
      running_ms: this.lease.runningMs(),
      run: this.record.run,
      entries: entries.map(({ key, json }) => [key, json] as const),
      consume_to: consumed?.to,
      consume_last: consumed?.ids.at(-1),
      consume_ids: consumed?.ids,
      consume_attached: consumed?.attached,
      events: events.length > 0 ? eventLine(events) : undefined,
      progress: update?.args.progress,
      log_bytes: update && this.state.logBytes,
      summary: update?.args.summary,
      whole_text: update?.args.whole_text,
      forgets_summary: update?.args.forgets_summary,
      advances,
    };
    return { input, entries, events, advances, entriesAfter: this.state.entries, update };
  }

  #tellAlerts({ alerts }: ReplyBody): void {
    if (alerts.length === this.#alerts.length) return;
    const known = new Set(this.#alerts.map((alert) => alert.kind));
    const turn = this.state.paidCalls;
    for (const alert of alerts) if (!known.has(alert.kind)) this.tell({ type: "alert", turn, alert });
    this.#alerts = alerts;
  }

  async #acknowledge({ entries, advances, entriesAfter, update }: PreparedCommit): Promise<void> {
    this.#unbooked = without(this.#unbooked, entries);
    this.#acknowledged = entriesAfter;
    if (update) {
      this.committed = update.progress;
      this.#text = update.text;
    }
    this.#consumed = undefined;
    if (advances) {
      this.attempts = 0;
      this.breaks = 0;
      this.hasAdvanced = true;
      this.equipment.slot.endIsolation();
    }
    if (entries.length > 0) await this.equipment.trace?.(this.record.run, entries);
  }

  /**
   * Other content stands in the log: starts again from what Redis holds; an answer that was bought twice is paid for twice.
   * Rejects when nothing stands there that was not known: the log would refuse the next answer as well.
   */
  async adopt({ entries: written }: PreparedCommit): Promise<CommitOutcome> {
    const known = this.#acknowledged;
    const stored = await this.#store.load(this.address);
    if (stored?.record.epoch !== this.lease.epoch) return this.lose();
    this.#consumed = undefined;
    this.state = new RunState(this.record.run, readLog(stored.log));
    this.state.unread = stored.inbox;
    this.state.inboxRead = stored.record.inbox_read;
    this.state.finish = stored.record.finish;
    this.#inboxInRedis = stored.inbox.length;
    this.#acknowledged = this.state.entries;
    if (this.#acknowledged === known) throw new SubagentError("protocol_violation", PARTLY_WRITTEN);
    this.purchase.forget();
    this.#unbooked = without(this.#unbooked, written);
    for (const { entry } of written) {
      if (entry.kind === "answer") this.addUnusedCall(entry.message, entry.usage, entry.costUsd, true);
      if (entry.kind === "compacted")
        this.addUnusedCall(entry.message + 1, entry.value.usage, entry.value.cost_usd, true);
    }
    const charged = await this.commit();
    return charged === "committed" ? "adopted" : charged;
  }
}

function without(all: NewEntry[], some: readonly NewEntry[]): NewEntry[] {
  return all.length === 0 ? all : all.filter((each) => !some.includes(each));
}

const PARTLY_WRITTEN =
  'The log holds a part of what it should take. Run "subagent-queue doctor" on this agent.';

/** Entries that were paid for, and those that bring the run on. */
const BOUGHT: ReadonlySet<LogEntry["kind"]> = new Set(["answer", "compacted", "purchase"]);
const ADVANCING: ReadonlySet<LogEntry["kind"]> = new Set(["answer", "compacted", "result"]);
