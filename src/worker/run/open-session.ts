/** Prepares a claimed run: its rules, tools and state; tells the model if it has a new workspace without its earlier files. */
import type { AgentRecord } from "../../shared/protocol/agent.ts";
import { isToolUse } from "../../shared/protocol/content.ts";
import { PROMPT_KEPT_CHARS } from "../../shared/protocol/reply.ts";
import { clip } from "../../shared/protocol/text.ts";
import type { VerbAnswer } from "../../shared/redis/scripts.ts";
import { type AgentHooks, hooksOf } from "../hooks/hooks.ts";
import { type LogEntry, newNotice, readLog } from "../loop/log.ts";
import { CUT_OFF_KINDS } from "../model/model.ts";
import { observedRun } from "../observe/observer.ts";
import type { RunSlot } from "../run-slots.ts";
import { mayUseWorkspace } from "../tools/tool.ts";
import type { RunContext } from "./context.ts";
import { chargeLostCall } from "./cost.ts";
import type { Lease } from "./lease.ts";
import { RunWorkspace } from "./run-workspace.ts";
import { Session } from "./session.ts";
import { traceBeside } from "./trace.ts";

/** True on another machine, and in an agent that continues the conversation of an ended one. */
const FILES_GONE =
  "Your work continues in a new workspace: files that you wrote or were given earlier are not there any more.";
/** Tools of ours that leave no file behind. */
const READERS: ReadonlySet<string> = new Set(["read_file", "glob", "grep"]);

/** Opens the session of a claimed run. Rejects if its record or log cannot be read, or a workspace that it used cannot be made. */
export async function openSession(
  context: RunContext,
  claimAnswer: Extract<VerbAnswer<"claim">, { status: "claimed" }>,
  lease: Lease,
  slot: RunSlot,
): Promise<Session> {
  const { address } = lease;
  const { record, log, inbox } = await context.store.claimed(address, claimAnswer);
  // A long log is read after the claim: if its agent has ended since, it is empty, and the lease must know before a call.
  if (claimAnswer.log === undefined) await lease.renew();
  const entries = readLog(log);
  const { agent_id: agentId, name, run, spec } = record;
  const prepared = context.specs.of(spec);
  const { tools, rules } = prepared;
  if (rules.unknownTools?.length)
    context.logger.warn(
      { uid: address.uid, tools: rules.unknownTools },
      "This worker does not have some tools",
    );
  const hooks = hooksOf(context.hooks, {
    agent: { agentId, name, run, definition: spec.definition, ...address },
    named: spec.hooks ?? [],
    permissions: rules.permissions ?? [],
    clock: context.clock,
  });
  const usesFiles = (name: string) => mayUseWorkspace(tools.get(name));
  const expected = hasUsedFiles(entries, usesFiles);
  const hasLeftFiles = expected && hasUsedFiles(entries, (name) => usesFiles(name) && !READERS.has(name));
  const workspace = workspaceOf(context, lease, record, hasLeftFiles);
  const claimed = { record, inbox, entries, watched: claimAnswer.watched };
  const session = new Session(context.store, lease, claimed, {
    hooks,
    workspace,
    slot,
    trace: undefined,
    observer: context.observer.observe(observedRun(address, record)),
    isStreamed: record.provider_wait !== undefined && CUT_OFF_KINDS.has(record.provider_wait.reason),
    ...prepared,
  });
  // First of all: an error from here on hands the run back, and Redis then records no call.
  if (claimAnswer.lost_call !== undefined) await chargeLostCall(context, session, claimAnswer.lost_call);
  if (context.traced) {
    const { directory } = await workspace.open();
    session.equipment.trace = traceBeside(directory, context.clock, context.logger);
  }
  tellBegin(session, context.workerId);
  if (expected) await workspace.open();
  await addNotices(session, entries, hooks);
  return session;
}

/** Tells the beginning of a run once: the commit that tells it also delivers the first message. */
function tellBegin(session: Session, worker: string): void {
  const { isBegun, unread } = session.state;
  if (isBegun) {
    session.tell({ type: "run_continued", turn: 0, worker });
    return;
  }
  const { max_turns } = session.record.spec.limits;
  const prompt = beginningOf(unread.map(({ text }) => text).join("\n\n"));
  session.tell({ type: "run_started", turn: 0, max_turns, worker, ...prompt });
}

/**
 * Adds notices at the head of the model's message, once: if an earlier holder has added one, it stays. That files are gone is
 * committed before the next call or hand-back, beside what else is noticed: the next holder here finds the new workspace, and
 * could not tell.
 */
async function addNotices(
  session: Session,
  entries: readonly LogEntry[],
  hooks: AgentHooks | undefined,
): Promise<void> {
  const { isBegun, userMessageNumber } = session.state;
  const { areFilesGone } = session.equipment.workspace;
  const notices = areFilesGone ? [FILES_GONE] : [];
  if (hooks && !isBegun) notices.push(...(await runStartHooks(hooks, session)));
  if (notices.length === 0) return;
  const before = entries.flatMap((entry) =>
    entry.kind === "notice" && entry.message === userMessageNumber ? entry.textJson : [],
  );
  if (before.length === 0) session.add([newNotice(userMessageNumber, notices.join("\n\n"))], areFilesGone);
  else if (areFilesGone && !before.some((textJson) => textJson.includes(FILES_GONE)))
    session.add([newNotice(userMessageNumber, FILES_GONE, "files")]);
}

/** Runs the start hooks; returns their texts for the model. A hook that blocks ends the run before its first purchase. */
async function runStartHooks(hooks: AgentHooks, { state, lease }: Session): Promise<string[]> {
  const { block, context } = await hooks.start(
    state.unread.map(({ text }) => text),
    lease.workStop,
  );
  if (block !== undefined) state.failure = { v: 1, kind: "model_error", message: block };
  return context === undefined ? [] : [context];
}

function beginningOf(prompt: string): { prompt?: string } {
  return prompt === "" ? {} : { prompt: clip(prompt, PROMPT_KEPT_CHARS) };
}

/** Returns true if files came in before, or a tool that `uses` them has begun; one only asked for has written nothing. */
function hasUsedFiles(entries: readonly LogEntry[], uses: (tool: string) => boolean): boolean {
  const begun = new Set(entries.flatMap((entry) => (entry.kind === "started" ? [entry.callId] : [])));
  return entries.some(
    (entry) =>
      (entry.kind === "delivery" && entry.hasFiles) ||
      (entry.kind === "answer" &&
        entry.content.some((block) => isToolUse(block) && begun.has(block.id) && uses(block.name))),
  );
}

function workspaceOf(
  { workspaceRoot: root, prefix, roots, clock }: RunContext,
  { address: { tenant, parentId, uid }, workStop }: Lease,
  { agent_id: agentId }: AgentRecord,
  expected: boolean,
): RunWorkspace {
  return new RunWorkspace({ root, tenant, parentId, agentId, uid, prefix, roots, expected, clock }, workStop);
}
