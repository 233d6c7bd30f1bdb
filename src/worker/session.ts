/**
 * One claimed run in this process: the log as it grows, and the writes that make it grow.
 * Owns the in-memory copy of the log; Redis owns the truth, and holds every write against its fence.
 *
 * 1. Memory never runs ahead of Redis: an entry is filed after its append was answered.
 * 2. Each alert is reported once, with the commit that crossed its threshold, also after a change of workers.
 * 3. After `lost` nothing is written any more, and the lease is given up: nothing else of the run goes on either.
 */
import type { AgentRecord } from "../shared/protocol/agent.ts";
import type { Usage } from "../shared/protocol/content.ts";
import type { AgentAddress } from "../shared/protocol/keys.ts";
import { entryKey, type PurchaseEntry, type ToolStartedEntry } from "../shared/protocol/log.ts";
import { ASK_TOOL, type OpenQuestion } from "../shared/protocol/question.ts";
import type { Alert, ReplyBody } from "../shared/protocol/reply.ts";
import type { AgentState, AgentStore } from "../shared/redis/agent-store.ts";
import { pairs } from "../shared/redis/pairs.ts";
import type { Consumed, Fence } from "../shared/redis/verbs.ts";
import type { Lease, LeaseNews } from "./lease.ts";
import { type Log, NO_ENTRIES, sizeOf, withEntries } from "./loop/log.ts";
import { viewRun } from "./loop/run-view.ts";
import { lastText, type Rules, tally } from "./loop/tally.ts";
import type { Reporter } from "./progress.ts";
import { INTERIM_TOOL, INTERIMS_PER_RUN } from "./tools/builtin/send-agent-message.ts";
import type { Tool } from "./tools/tool.ts";
import type { Workspace } from "./tools/workspace.ts";
import type { Trace } from "./trace.ts";

/** What became of an append: `adopted` means that another content had been committed before, and stands. */
export type Committed = "committed" | "adopted" | "lost";

type Entries = readonly (readonly [string, unknown])[];

/** What else one append carries. */
export interface CommitExtras {
  consume?: Consumed;
  /** A line of the step list: the run has come further. */
  step?: Record<string, unknown>;
  /** An interim message for the parent. */
  interim?: { id: string; body: string };
}

/** What a run works with. */
export interface Equipment {
  rules: Rules;
  /** The tools offered to the model, sorted by name. */
  tools: readonly Tool[];
  workspace: Workspace;
  report: Reporter;
  /** Told of each committed step. */
  onStep(): void;
  trace?: Trace;
}

/** See the module's header. */
export class Session {
  readonly address: AgentAddress;
  readonly record: AgentRecord;
  readonly rules: Rules;
  readonly lease: Lease;
  readonly tools: readonly Tool[];
  readonly workspace: Workspace;
  readonly report: Reporter;
  /** Failures since the last step that brought the run on; a call paid for in vain brings nothing. */
  retries: number;
  readonly #store: AgentStore;
  readonly #onStep: () => void;
  readonly #trace: Trace | undefined;
  readonly #log: Log;
  #unreadInRedis: number;
  #hasStepped = false;
  /** Interim messages sent in this run; counted from the log when the first one of this claim is sent. */
  #interims: number | undefined;
  #alerts: readonly Alert[];
  #purchases = 0;
  /** The whole text that Redis holds of the run; unknown after a change of workers. */
  #wholeText: string | undefined;

  constructor(
    store: AgentStore,
    address: AgentAddress,
    state: AgentState,
    lease: Lease,
    equipment: Equipment,
  ) {
    this.#store = store;
    this.tools = equipment.tools;
    this.workspace = equipment.workspace;
    this.report = equipment.report;
    this.#onStep = equipment.onStep;
    this.#trace = equipment.trace;
    this.address = address;
    this.record = state.record;
    this.lease = lease;
    this.rules = equipment.rules;
    this.retries = state.record.retries;
    this.#unreadInRedis = state.inbox.length;
    this.#alerts = state.record.progress?.alerts ?? [];
    this.#wholeText = state.record.progress?.truncated ? undefined : "";
    this.#log = {
      entries: withEntries(NO_ENTRIES, state.log),
      run: state.record.run,
      unread: state.inbox,
      inboxRead: state.record.inbox_read,
      elapsedMs: lease.runningMs(),
      finish: state.record.finish === "1",
    };
  }

  /** The log as of now; unread messages are fetched when Redis is known to hold others. */
  async log(): Promise<Log> {
    if (this.#unreadInRedis !== this.#log.unread.length) await this.refreshInbox();
    return this.known();
  }

  /** The log as far as this process knows it. */
  known(): Log {
    this.#log.elapsedMs = this.lease.runningMs();
    return this.#log;
  }

  /** What Redis holds a write of this run against. */
  get fence(): Fence {
    return { epoch: this.lease.epoch, known: sizeOf(this.#log.entries) };
  }

  /** Whether this claim has committed a step. */
  get hasStepped(): boolean {
    return this.#hasStepped;
  }

  /** What the run has come to so far. */
  tally(): ReplyBody {
    return tally(this.known(), this.rules);
  }

  /** Takes in what a renewal or an append brought along. */
  heed({ unreadMessages, finish }: LeaseNews): void {
    this.#unreadInRedis = unreadMessages;
    this.#log.finish = finish;
  }

  /** Reads the unread messages again. */
  async refreshInbox(): Promise<void> {
    const unread = await this.#store.inbox(this.address);
    this.#log.unread = unread;
    this.#unreadInRedis = unread.length;
  }

  /** Commits entries, all or none, with the progress they make. Conflicting ones are adopted from Redis. */
  async commit(entries: Entries, { step, ...carried }: CommitExtras = {}): Promise<Committed> {
    if (!this.lease.isLive()) return "lost";
    const written = entries.map(([key, value]) => [key, JSON.stringify(value)] as const);
    const earlier = this.known().entries;
    const { grown, progress, whole } = this.#with(written);
    const answer = await this.#store.append(this.address, {
      ...this.fence,
      runningMs: this.lease.runningMs(),
      entries: written,
      progress,
      ...(whole !== this.#wholeText && { text: { run: this.record.run, whole } }),
      ...(step && { step: JSON.stringify(step) }),
      ...carried,
    });
    if (answer.status === "stale") {
      this.lease.stop();
      return "lost";
    }
    if (answer.status === "conflict") {
      this.#log.entries = withEntries(this.#log.entries, pairs(answer.rest));
      return "adopted";
    }
    // Parallel tools commit while others wait for their answer: file into what the log has become meanwhile.
    this.#log.entries = this.#log.entries === earlier ? grown : withEntries(this.#log.entries, written);
    this.#wholeText = whole;
    this.#alert(progress);
    if (step) {
      this.retries = 0;
      this.#hasStepped = true;
      this.#onStep();
    }
    if (carried.consume) this.#consume(carried.consume.to);
    this.heed({ unreadMessages: Number(answer.inbox), finish: answer.finish === "1" });
    await this.#trace?.(this.record.run, written);
    return "committed";
  }

  /** Puts questions to the parent; `finishing`: it wants the run to end instead. Once asked, nothing is this process' any more. */
  async ask(
    questions: readonly OpenQuestion[],
    answerMs: number,
    step: Record<string, unknown>,
  ): Promise<"asked" | "finishing" | "lost"> {
    if (!this.lease.isLive()) return "lost";
    const started = JSON.stringify({ v: 1, name: ASK_TOOL } satisfies ToolStartedEntry);
    const written = questions.map(({ question_id }) => [entryKey.startedOf(question_id), started] as const);
    const { progress } = this.#with(written);
    const answer = await this.#store.ask(this.address, {
      ...this.fence,
      runningMs: this.lease.runningMs(),
      answerMs,
      questions: questions.map((question) => ({ question, started })),
      progress,
      step: JSON.stringify(step),
    });
    if (answer.status === "finishing") {
      this.#log.finish = true;
      return "finishing";
    }
    this.lease.stop();
    if (answer.status === "stale") return "lost";
    this.#alert(progress);
    await this.#trace?.(this.record.run, written);
    return "asked";
  }

  /** Takes one of the {@link INTERIMS_PER_RUN} interim messages of the run; false when none is left. */
  takeInterim(): boolean {
    this.#interims ??= viewRun(this.known())
      .turns.flatMap((turn) => turn.calls)
      .filter((call) => call.name === INTERIM_TOOL && call.result?.is_error === false).length;
    if (this.#interims >= INTERIMS_PER_RUN) return false;
    this.#interims += 1;
    return true;
  }

  /** Records a call that was paid for although no message came of it. */
  async commitPurchase(message: number, usage: Usage, costUsd: number): Promise<Committed> {
    const entry: PurchaseEntry = { v: 1, usage, cost_usd: costUsd };
    const key = entryKey.purchase(message, this.lease.epoch, this.#purchases++);
    return this.commit([[key, entry]]);
  }

  /** The log with further entries, what the run has come to with them, and its whole text where that had to cut it. */
  #with(written: readonly (readonly [string, string])[]) {
    const grown = withEntries(this.known().entries, written);
    const log = { ...this.known(), entries: grown };
    const progress = tally(log, this.rules);
    return { grown, progress, whole: progress.truncated ? lastText(viewRun(log)) : "" };
  }

  #alert({ turns, alerts }: ReplyBody): void {
    this.report.alerts(turns, this.#alerts, alerts);
    this.#alerts = alerts;
  }

  #consume(cursor: number): void {
    this.#log.unread = this.#log.unread.slice(cursor - this.#log.inboxRead);
    this.#log.inboxRead = cursor;
  }
}
