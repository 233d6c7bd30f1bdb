/** Performs `run_tools`: writes the start marks, runs all calls in parallel, commits results that come within 50 ms together. */

import { ToolFailure } from "../../shared/errors.ts";
import { keptForV8 } from "../../shared/hidden-class.ts";
import { entryKey } from "../../shared/protocol/log.ts";
import { ASK_TOOL } from "../../shared/protocol/message.ts";
import { withoutSecrets } from "../../shared/secrets.ts";
import { ordinaryTimeMs } from "../loop/caps.ts";
import { REPETITION_REFUSED } from "../loop/conversation.ts";
import { type NewEntry, newResult, newStarted } from "../loop/log.ts";
import type { PlannedCall, Step } from "../loop/next.ts";
import { INTERIM_TOOL, INTERIMS_PER_RUN, interimWith } from "../tools/builtin/parent.ts";
import { type RunToolOptions, runTool, type ToolCaller } from "../tools/registry.ts";
import { mayUseWorkspace } from "../tools/tool.ts";

import type { RunContext, RunOutcome } from "./context.ts";
import { NO_WORKSPACE } from "./run-workspace.ts";
import type { CommitOutcome, InterimMessage, Session } from "./session.ts";

const NO_INTERIM_LEFT = `You have sent your parent ${INTERIMS_PER_RUN} messages in this run: put the rest into your final answer.`;
const TOO_LATE = "A tool sent a message to the parent after its call had ended: it is dropped";
const UNANSWERED = "Your parent asked you to report before it answered.";
const INTERRUPTED =
  "Interrupted: the worker stopped during this call and its effect is unknown. Check before you repeat it.";
/** Longest wait of a result for those of the other calls; then it is committed without them. */
const BATCH_WAIT_MS = 50;

type ToolStep = Extract<Step, { do: "run_tools" }>;

/** Answers every open call of the message. */
export async function runTools(
  context: RunContext,
  session: Session,
  step: ToolStep,
): Promise<RunOutcome | "lease_over" | undefined> {
  const performed: PlannedCall[] = [];
  const openings: NewEntry[] = [];
  for (const call of step.calls) {
    if (call.how === "run") performed.push(call);
    openings.push(openingEntry(step.message, call));
  }
  await openWorkspaceFor(session, performed);
  session.add(openings);
  for (const call of performed)
    session.tell({ type: "tool_started", turn: step.turn, tool_use_id: call.id, tool: call.name });
  const hasRunningCalls = performed.length > 0;
  const begun = hasRunningCalls ? undefined : nextPurchaseId(session);
  const marked = await session.commit({ results: performed.length, begun });
  if (marked !== "committed") return marked === "lease_over" ? "lease_over" : undefined;
  if (!hasRunningCalls) return undefined;
  const limit = limitTools(context, session);
  const results = new ResultCommitter(context, session, performed.length);
  const options = toolOptions(context, session);
  for (const call of performed) {
    performCall(context, session, step, { call, options }).then(
      (result) => results.take(result),
      (error: unknown) => results.fail(error),
    );
  }
  const committed = await results.committed.finally(() => limit.cancel());
  return committed === "lease_over" ? "lease_over" : undefined;
}

/** Stops the tools of the turn, and the hooks around them, when only the time of the final call is left. */
export function limitTools(
  { toolTimers }: RunContext,
  { rules, lease, toolStop }: Session,
): { cancel(): void } {
  const leftMs = ordinaryTimeMs(rules.limits) - lease.runningMs();
  return toolTimers.timeout(Math.max(0, leftMs), () => toolStop.stop());
}

/** Opens the workspace if a tool needs it. A failure keeps the tools from beginning, but bought answers are still committed. */
async function openWorkspaceFor(session: Session, calls: readonly PlannedCall[]): Promise<void> {
  const { workspace, tools } = session.equipment;
  const isNeeded = calls.some(({ name }) => mayUseWorkspace(tools.get(name)));
  if (!isNeeded || workspace.opened) return;
  try {
    await workspace.open();
  } catch (error) {
    await session.commit();
    throw error;
  }
}

/** Returns the entry that is committed before anything runs: a start mark, or the result of a call that is not performed. */
function openingEntry(message: number, call: PlannedCall): NewEntry {
  if (call.how === "run") return newStarted(message, call.id, call.name);
  const denied = call.reason ?? "Not permitted.";
  const content = { interrupted: INTERRUPTED, repeated: REPETITION_REFUSED, unanswered: UNANSWERED, denied }[
    call.how
  ];
  const isDenied = call.how === "denied" || call.how === "repeated" || wasNotPermitted(call);
  return newResult(message, call.id, content, {
    isError: true,
    isInterrupted: call.how === "interrupted",
    isDenied,
  });
}

/** Returns true for a call whose permission was not given before its agent was told to report; a question was asked. */
function wasNotPermitted({ how, name }: PlannedCall): boolean {
  return how === "unanswered" && name !== ASK_TOOL;
}

/** A call's result. `interim`: its message to the parent. */
interface Result {
  entry: NewEntry;
  interim: InterimMessage | undefined;
}

/** Performs a call; undefined if a stopping process cut it off: without a result its effect is unknown. */
async function performCall(
  context: RunContext,
  session: Session,
  step: ToolStep,
  { call, options }: { call: PlannedCall; options: RunToolOptions },
): Promise<Result | undefined> {
  const { lease, equipment } = session;
  if (!lease.isLive()) return undefined;
  let interimText: string | undefined;
  let isOver = false;
  let lateMessages = 0;
  const caller = callerOf(session, call, (text) => {
    // No error is thrown: thrown in a tool's timer, it would end the process.
    if (isOver) {
      lateMessages += 1;
      if (lateMessages === 1) context.logger.warn({ uid: session.address.uid, tool: call.name }, TOO_LATE);
      return;
    }
    const message = interimWith(interimText, text);
    if (interimText === undefined && !session.takeInterim(INTERIM_TOOL, INTERIMS_PER_RUN))
      throw new ToolFailure(NO_INTERIM_LEFT);
    interimText = message;
  });
  const tool = equipment.tools.get(call.name);
  const { id, name } = call;
  const perform = (input: unknown) =>
    equipment.observer.tool(call, tool !== undefined, () =>
      runTool(tool, { id, name, input }, caller, options),
    );
  const outcome = await (equipment.hooks?.around(call, perform, session.toolStop) ?? perform(call.input));
  isOver = true;
  if (context.abandoned.aborted) return undefined;
  const { content, isError, isDenied = false, durationMs } = outcome;
  session.tell({
    type: "tool_finished",
    turn: step.turn,
    tool_use_id: call.id,
    tool: call.name,
    is_error: isError,
    duration_ms: Math.round(durationMs),
  });
  const entry = newResult(step.message, call.id, content, { isError, isDenied, durationMs });
  if (isError || interimText === undefined) return { entry, interim: undefined };
  // A provider may give the same id to calls of several turns.
  const messageId = `${session.address.uid}.${session.record.run}.${entryKey.call(step.message, call.id)}`;
  return { entry, interim: { id: messageId, body: withoutSecrets(interimText) } };
}

function callerOf(
  { address, record, equipment }: Session,
  { id }: PlannedCall,
  tellParent: (text: string) => void,
): ToolCaller {
  return {
    agentId: record.agent_id,
    uid: address.uid,
    run: record.run,
    toolUseId: id,
    workspace: equipment.workspace.opened ?? NO_WORKSPACE,
    tellParent,
  };
}

/**
 * Returns the options that all calls of the step share. One call may block the process past the lease before the next begins,
 * and before any timer could fire: so the lease is checked just before each call runs.
 */
function toolOptions(
  { clock, toolTimers }: RunContext,
  { equipment, lease, toolStop }: Session,
): RunToolOptions {
  return {
    offered: equipment.toolNames,
    clock,
    timers: toolTimers,
    stop: toolStop,
    mayRun: () => lease.isLive(),
  };
}

/** Commits results together, but no result waits long for another. */
class ResultCommitter {
  /** Resolves when nothing is left to commit. */
  readonly committed: Promise<CommitOutcome>;
  /** The last write. Its failure has a handler at once, and `committed` rejects with it at the end. */
  #last: Promise<CommitOutcome> = Promise.resolve("committed");
  readonly #context: RunContext;
  readonly #session: Session;
  #left: number;
  #ready: Result[] = [];
  #timer: { cancel(): void } | undefined;
  #resolve: (committed: Promise<CommitOutcome>) => void = () => {};

  constructor(context: RunContext, session: Session, calls: number) {
    this.#context = context;
    this.#session = session;
    this.#left = calls;
    this.committed = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    keptForV8.results = this;
  }

  take(result: Result | undefined): void {
    this.#left -= 1;
    if (result) this.#ready.push(result);
    if (this.#left === 0) this.#end();
    else if (this.#ready.length > 0)
      this.#timer ??= this.#context.toolTimers.timeout(BATCH_WAIT_MS, () => {
        this.#timer = undefined;
        this.#commit();
      });
  }

  fail(error: unknown): void {
    this.#last = this.#last.then(() => {
      throw error;
    });
    this.#last.catch(() => {});
    this.take(undefined);
  }

  #end(): void {
    this.#timer?.cancel();
    this.#commit();
    this.#resolve(this.#last);
  }

  #commit(): void {
    const ready = this.#ready;
    this.#ready = [];
    if (ready.length === 0) return;
    this.#last = this.#last.then((before) => (before === "committed" ? this.#write(ready) : before));
    this.#last.catch(() => {});
  }

  /** Writes results in one commit; an interim message goes with the commit of its own call. */
  async #write(ready: readonly Result[]): Promise<CommitOutcome> {
    const silent: NewEntry[] = [];
    const spoken: Result[] = [];
    for (const result of ready) {
      if (result.interim) spoken.push(result);
      else silent.push(result.entry);
    }
    this.#session.add(silent);
    for (const { entry, interim } of spoken) {
      this.#session.add([entry]);
      const begun = entry === spoken.at(-1)?.entry ? this.#nextPurchaseId() : undefined;
      const committed = await this.#session.commit({ interim, begun });
      if (committed !== "committed") return committed;
    }
    return this.#session.commit({ begun: this.#nextPurchaseId() });
  }

  /** Returns the purchase that follows the last result of the turn; undefined while results are missing. */
  #nextPurchaseId(): string | undefined {
    return this.#left === 0 ? nextPurchaseId(this.#session) : undefined;
  }
}

/**
 * Returns the id of the next turn's purchase; undefined if no call follows. Adds its event `turn_started` to the current
 * commit; if a message of the parent is delivered before the call, `callModel` adds that event.
 */
function nextPurchaseId(session: Session): string | undefined {
  const step = session.next();
  if (step.do === "deliver") return session.purchase.idOf({ message: step.message + 1 });
  if (step.do !== "call_model") return undefined;
  session.tellTurnStarted(step.turn);
  return session.purchase.idOf(step);
}
