/**
 * One claimed run in this process: its state, and the commits that advance it. Owns the state in memory and the uncommitted
 * entries; Redis owns the truth, and checks every write against its fence.
 *
 * 1. A tool runs only after Redis has the answer that asks for it, and a model call only after it has every answer, result
 *    and summary before; messages, notices and verdicts may still be on their way, and the next commit includes them.
 * 2. Each alert is told once, with the commit that crossed its threshold, also after a change of workers.
 * 3. After `lease_over` this session writes nothing more, and all other work of the run stops too. `failure.ts`
 *    then books unbooked costs, and releases a run whose lease expired.
 */
import { SubagentError } from "../../shared/errors.ts";
import { keptForV8 } from "../../shared/hidden-class.ts";
import type { AgentRecord } from "../../shared/protocol/agent.ts";
import type { Usage } from "../../shared/protocol/content.ts";
import type { AgentAddress } from "../../shared/protocol/keys.ts";
import type { OpenQuestion } from "../../shared/protocol/message.ts";
import { type Alert, eventLine, type ReplyBody, type RunEvent } from "../../shared/protocol/reply.ts";
import type { AgentStore, StoredAgent } from "../../shared/redis/agent-store.ts";
import type { VerbInput } from "../../shared/redis/scripts.ts";
import { StopSignal } from "../../shared/stop-signal.ts";
import { type LogEntry, type NewEntry, newPurchase, newQuestionMark, readLog, without } from "../loop/log.ts";
import { next, type Step } from "../loop/next.ts";
import { progressUpdate, replyBody, type TextInRecord, textIn, withQuestions } from "../loop/reply-body.ts";
import type { RunRules } from "../loop/rules.ts";
import { RunState } from "../loop/state.ts";
import type { Equipment } from "./context.ts";
import type { HolderStatus, Lease } from "./lease.ts";
import { NextPurchase, type UpcomingPurchase, unusedCallOf } from "./purchase.ts";
import type { LeftFiles } from "./run-workspace.ts";

/** Outcome of a commit. `adopted`: the log keeps the other content that it had. `lease_over`: this process may write no more. */
export type CommitOutcome = "committed" | "adopted" | "lease_over";

/** An interim message for the parent. */
export interface InterimMessage {
  id: string;
  body: string;
}

/** Content of one commit. `advances`: the run advances. `entriesAfter`: number of entries in the log after it. */
export interface PreparedCommit {
  input: CommitInput;
  entries: readonly NewEntry[];
  events: readonly RunEvent[];
  advances: boolean;
  entriesAfter: number;
  /** The progress of the run, if the commit has it, and the record's last text after it. */
  update: { progress: ReplyBody; text: TextInRecord } | undefined;
}

/** The last commit of a run. */
export type LastCommit = PreparedCommit & { update: NonNullable<PreparedCommit["update"]> };

/** Consumed messages that are still in Redis' inbox: the cursors from and to, their ids, and the names of their attachments. */
interface Consumed {
  from: number;
  to: number;
  ids: readonly string[];
  attached: readonly string[];
}

/** Input of the committing verb; an interim message and the next purchase are filled in last. */
type CommitInput = VerbInput<"append">;

/** See the module's header. */
export class Session {
  readonly address: AgentAddress;
  readonly record: AgentRecord;
  readonly lease: Lease;
  readonly equipment: Equipment;
  readonly rules: RunRules;
  /** The model of the current or last call. */
  model: string;
  /** Stops tools: with the lease, with the process, or when their time is over. */
  readonly toolStop = new StopSignal();
  /** Failures of the provider, or errors in a worker, since the run last advanced; an answer of no use is no advance. */
  attempts: number;
  /** How often in a row the run has broken off before it advanced. */
  breaks: number;
  isWatched: boolean;
  /** True if the model was told that a budget is nearly used. */
  isToldOfBudget = false;
  /** True if the current or last call went beyond a budget and was paid for. */
  isBeyondBudget = false;
  /** The files in the workspace at the end of the run. */
  leftFiles: LeftFiles = {};
  hasAdvanced = false;
  /** True if a call has begun under this claim: its time counts, also if it fails. */
  hasCalled = false;
  readonly #store: AgentStore;
  /** State of the run; its running time is set when `next` or `body` is called. */
  state: RunState;
  /** Number of entries that Redis has acknowledged. */
  #acknowledged: number;
  /** Entries for the next commit. */
  #pending: NewEntry[] = [];
  /** True if one of the pending entries records work that must not be repeated. */
  isCommitDue = false;
  /** Events that are not in Redis yet. */
  events: RunEvent[] = [];
  #turnStarted = 0;
  #consumed: Consumed | undefined;
  /** Interim messages sent in this run; counted from the log when this claim sends its first one. */
  #interims: number | undefined;
  #inboxInRedis: number;
  #alerts: readonly Alert[];
  #purchases = 0;
  /** Answers and purchases that no commit has brought to Redis yet. */
  #unbooked: NewEntry[] = [];
  readonly purchase: NextPurchase;
  /** The progress of the run as Redis has it. */
  committedProgress: ReplyBody | undefined;
  #text: TextInRecord | undefined;

  constructor(
    store: AgentStore,
    lease: Lease,
    claimed: Omit<StoredAgent, "log"> & { entries: readonly LogEntry[]; watched: boolean },
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
    this.committedProgress = record.progress;
    this.#text = textIn(record);
    this.state = new RunState(record.run, entries);
    this.state.unread = inbox;
    this.state.inboxRead = record.inbox_read;
    this.state.finish = record.finish;
    this.#acknowledged = this.state.entries;
    lease.onStatus = (status) => this.applyStatus(status);
    lease.workStop.onStop(() => this.toolStop.stop());
    keptForV8.session = this;
  }

  next(): Step {
    this.state.elapsedMs = this.lease.runningMs();
    return next(this.state, this.rules);
  }

  /** True if Redis has other unread messages than this session. */
  get isInboxStale(): boolean {
    return this.#inboxInRedis !== this.state.unread.length;
  }

  /** Returns the progress of the run so far. */
  body(): ReplyBody {
    this.state.elapsedMs = this.lease.runningMs();
    return Object.assign(replyBody(this.state, this.rules), this.leftFiles);
  }

  /** Applies the status that a renewal or a commit returned. */
  applyStatus({ inbox, finish, watched }: HolderStatus): void {
    this.#inboxInRedis = inbox - this.#consumedHere;
    this.state.finish = finish;
    this.isWatched = watched;
  }

  get #consumedHere(): number {
    return this.#consumed ? this.#consumed.to - this.#consumed.from : 0;
  }

  async refreshInbox(): Promise<void> {
    this.state.unread = (await this.#store.inbox(this.address)).slice(this.#consumedHere);
    this.#inboxInRedis = this.state.unread.length;
  }

  /**
   * Adds entries for the next commit, which comes before tools run, before the next call, a question or a release; the last
   * ones go with `settle`. `isDue`: they record work that must not be repeated.
   */
  add(entries: readonly NewEntry[], isDue = true): void {
    for (const entry of entries) {
      this.#pending.push(entry);
      if (BOUGHT.has(entry.entry.kind)) this.#unbooked.push(entry);
      this.state.fold(entry.entry);
    }
    if (entries.length > 0) this.isCommitDue ||= isDue;
  }

  /** Consumes the unread messages up to `to`, with these ids, and their attachments, with the next commit. */
  consume(to: number, ids: readonly string[], attached: readonly string[] = []): void {
    const { from = this.state.inboxRead, ids: before = [], attached: earlier = [] } = this.#consumed ?? {};
    this.#consumed = { from, to, ids: [...before, ...ids], attached: [...earlier, ...attached] };
    this.state.unread = this.state.unread.slice(to - this.state.inboxRead);
    this.state.inboxRead = to;
    this.#inboxInRedis = this.state.unread.length;
  }

  /** Adds a call that was paid for but brought no message. `isCutOff`: this side ended it. */
  addUnusedCall(
    message: number,
    { usage, costUsd: cost_usd }: { usage: Usage; costUsd: number },
    { isCutOff, compactBefore: sums_up }: { isCutOff: boolean; compactBefore?: number | undefined },
  ): void {
    const why = { ...(isCutOff && { cut_off: true }), ...(sums_up !== undefined && { sums_up }) };
    const entry = { v: 1 as const, usage, cost_usd, ...why };
    this.add([newPurchase(message, this.lease.epoch, this.#purchases++, entry)]);
  }

  /** Adds an event to the next commit's line. If the call of a finished turn is repeated, the turn is told to start again. */
  tell(event: RunEvent): void {
    if (event.type === "turn_finished") this.#turnStarted = event.turn - 1;
    this.events.push(event);
  }

  /** Tells once that turn `turn` begins, until it is over. */
  tellTurnStarted(turn: number): void {
    if (this.#turnStarted >= turn) return;
    this.#turnStarted = turn;
    this.tell({ type: "turn_started", turn });
  }

  /** Takes one of the run's `most` interim messages; false if none is left. */
  takeInterim(tool: string, most: number): boolean {
    this.#interims ??= this.state.tally.succeeded.get(tool) ?? 0;
    if (this.#interims >= most) return false;
    this.#interims += 1;
    return true;
  }

  /** Paid entries that, as far as this side knows, are neither in the log nor in a counter; one commit includes all of them. */
  get unbooked(): readonly NewEntry[] {
    return this.#unbooked;
  }

  /** Commits the added entries, all or nothing; adopts other content that Redis has. */
  async commit(along: UpcomingPurchase & { interim?: InterimMessage } = {}): Promise<CommitOutcome> {
    if (this.#pending.length === 0) return "committed";
    if (!this.lease.isLive()) return "lease_over";
    const prepared = this.prepareCommit(false);
    const { input } = prepared;
    const update = this.purchase.updateFor(this.state.last, prepared.entriesAfter, along);
    input.begun = update?.begun;
    input.no_purchase = update?.no_purchase;
    input.interim_id = along.interim?.id;
    input.interim = along.interim?.body;
    const answer = await this.#store.append(this.address, input);
    if (answer.status === "stale") return this.endLease();
    if (answer.status === "conflict") return this.adopt(prepared);
    this.purchase.committed(prepared.entries, update);
    await this.#acknowledge(prepared);
    this.applyStatus(answer);
    return "committed";
  }

  /** Asks the parent questions. `finishing`: the parent wants an end instead. After `asked` no process holds the agent. */
  async ask(
    questions: readonly OpenQuestion[],
    answerMs: number,
    events: readonly RunEvent[],
  ): Promise<"asked" | "finishing" | "lease_over"> {
    if (!this.lease.isLive()) return "lease_over";
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
    if (answer.status === "stale") return this.endLease();
    this.lease.end("given_up");
    await this.equipment.trace?.(this.record.run, marks);
    return "asked";
  }

  /** Called after `settle` has written the commit; `status` if the run continues. Events without an entry are told later. */
  async settled(prepared: PreparedCommit, status?: HolderStatus): Promise<void> {
    if (status && prepared.entriesAfter === this.#acknowledged) this.events.unshift(...prepared.events);
    this.purchase.committed(prepared.entries);
    await this.#acknowledge(prepared);
    if (status) this.applyStatus(status);
  }

  /** Called when Redis refused a write. A renewal finds why: another worker holds the run, or Redis lost a part of the log. */
  async endLease(): Promise<"lease_over"> {
    await this.lease.renew();
    this.lease.end("expired");
    return "lease_over";
  }

  /** Takes the uncommitted entries; `isLast`: for `settle`, with the progress of the run. */
  prepareCommit(isLast: true): LastCommit;
  prepareCommit(isLast: boolean): PreparedCommit;
  prepareCommit(isLast: boolean): PreparedCommit {
    const entries = this.#pending;
    // A tool call is counted when it begins, so results change no counter.
    const body = isLast || entries.some(({ entry }) => entry.kind !== "result") ? this.body() : undefined;
    if (body) this.#tellAlerts(body);
    // A commit without new entries has no events, because the script takes it for a repeated one.
    const events = isLast || this.state.entries > this.#acknowledged ? this.events.splice(0) : [];
    const consumed = this.#consumed;
    this.#pending = [];
    this.isCommitDue = false;
    const advances = entries.some(({ entry }) => ADVANCING.has(entry.kind));
    const update = body && progressUpdate(body, this, this.#text, isLast);
    const fields: [key: string, json: string][] = [];
    for (const { key, json } of entries) fields.push([key, json]);
    const input: CommitInput = {
      epoch: this.lease.epoch,
      known: this.#acknowledged,
      running_ms: this.lease.runningMs(),
      run: this.record.run,
      entries: fields,
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
    const turn = this.state.paidCalls;
    for (const alert of alerts)
      if (!this.#alerts.some(({ kind }) => kind === alert.kind)) this.tell({ type: "alert", turn, alert });
    this.#alerts = alerts;
  }

  async #acknowledge({ entries, advances, entriesAfter, update }: PreparedCommit): Promise<void> {
    this.#unbooked = without(this.#unbooked, entries);
    this.#acknowledged = entriesAfter;
    if (update) {
      this.committedProgress = update.progress;
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
   * Called when the log has other content: reloads the state from Redis, and books an answer of ours that the log lacks: it was
   * paid for. Rejects if the log has nothing new, because it would refuse the next answer as well.
   */
  async adopt({ entries: written, events }: PreparedCommit): Promise<CommitOutcome> {
    const known = this.#acknowledged;
    this.events.unshift(...events);
    const stored = await this.#store.load(this.address);
    if (stored?.record.epoch !== this.lease.epoch) return this.endLease();
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
      const unused = unusedCallOf(entry);
      if (unused) this.addUnusedCall(unused.message, unused, unused);
    }
    const charged = await this.commit();
    return charged === "committed" ? "adopted" : charged;
  }
}

const PARTLY_WRITTEN =
  'The log holds a part of what it should take. Run "subagent-queue doctor" on this agent.';

/** Kinds of entries that were paid for, and kinds that advance the run. */
const BOUGHT: ReadonlySet<LogEntry["kind"]> = new Set(["answer", "compacted", "purchase"]);
const ADVANCING: ReadonlySet<LogEntry["kind"]> = new Set(["answer", "compacted", "result"]);
