/** Performs `run_tools`: marks what begins, runs all calls in parallel, commits each result as it comes. */
import { entryKey, type ToolResultEntry, type ToolStartedEntry } from "../shared/protocol/log.ts";
import type { Lease } from "./lease.ts";
import { ordinaryTimeMs } from "./loop/caps.ts";
import { REPETITION_REFUSED } from "./loop/conversation.ts";
import type { PlannedCall, Step } from "./loop/next.ts";
import type { RunContext, RunEnd } from "./run-context.ts";
import type { Committed, Session } from "./session.ts";
import { openStepSignal } from "./step-signal.ts";
import { INTERIMS_PER_RUN } from "./tools/builtin/send-agent-message.ts";
import { runTool } from "./tools/registry.ts";
import { type Tool, ToolFailure } from "./tools/tool.ts";

const NO_INTERIM_LEFT = `You have sent your parent ${INTERIMS_PER_RUN} messages in this run: put the rest into your final answer.`;

const UNANSWERED = "Your parent asked you to report before it answered.";

type ToolStep = Extract<Step, { do: "run_tools" }>;

const INTERRUPTED =
  "Interrupted: the worker stopped during this call and its effect is unknown. Check before you repeat it.";

/** Answers every open call of the message. */
export async function runTools(
  context: RunContext,
  session: Session,
  step: ToolStep,
): Promise<RunEnd | undefined> {
  const begun = await session.commit(step.calls.map((call) => openingEntry(step.message, call)));
  if (begun === "lost") return { status: "lost" };
  if (begun === "adopted") return undefined;
  const performed = step.calls.filter((call) => call.how === "run");
  const committed = await Promise.all(performed.map((call) => performCall(context, session, step, call)));
  return committed.includes("lost") ? { status: "lost" } : undefined;
}

/** What is committed before anything runs: the mark of a beginning, or the result of a call that is not performed. */
function openingEntry(
  message: number,
  call: PlannedCall,
): readonly [string, ToolStartedEntry | ToolResultEntry] {
  if (call.how === "run") return [entryKey.started(message, call.id), { v: 1, name: call.name }];
  const content = { interrupted: INTERRUPTED, repeated: REPETITION_REFUSED, unanswered: UNANSWERED }[
    call.how
  ];
  return [
    entryKey.result(message, call.id),
    { v: 1, content, is_error: true, duration_ms: 0, interrupted: call.how === "interrupted" },
  ];
}

/** A parallel call may have blocked the process past the lease before this one begins, and before any timer could fire. */
function underLease(tool: Tool | undefined, lease: Lease): Tool | undefined {
  return (
    tool && {
      ...tool,
      async run(input, ctx) {
        if (!lease.isLive()) throw new ToolFailure("Not started: the run is another worker's by now.");
        return tool.run(input, ctx);
      },
    }
  );
}

async function performCall(
  context: RunContext,
  session: Session,
  step: ToolStep,
  call: PlannedCall,
): Promise<Committed | "abandoned"> {
  if (!session.lease.isLive()) return "lost";
  const { report } = session;
  const { signal, done } = openStepSignal(context, session, ordinaryTimeMs(session.rules.limits));
  report.toolStarted(step.turn, call);
  const { outcome, interim } = await callTool(context, session, call, signal).finally(done);
  // Cut off by a stopping process: without a result the next worker knows that the effect is unknown.
  if (signal.aborted && context.abandoned.aborted) return "abandoned";
  report.toolFinished(step.turn, call, outcome);
  const { content, isError: is_error } = outcome;
  const duration_ms = Math.round(outcome.durationMs);
  const entry: ToolResultEntry = { v: 1, content, is_error, duration_ms };
  return session.commit([[entryKey.result(step.message, call.id), entry]], {
    step: { run: session.record.run, turn: step.turn, tool: call.name, ms: duration_ms, is_error },
    ...(interim && !is_error && { interim }),
  });
}

/** Calls the tool; what it tells the parent is committed together with its result. */
async function callTool({ clock }: RunContext, session: Session, call: PlannedCall, signal: AbortSignal) {
  const { address, record, workspace, tools, lease } = session;
  const offered = tools.map((tool) => tool.name);
  const tool = underLease(
    tools.find(({ name }) => name === call.name),
    lease,
  );
  let interim: { id: string; body: string } | undefined;
  const tellParent = (body: string) => {
    if (!session.takeInterim()) throw new ToolFailure(NO_INTERIM_LEFT);
    interim = { id: `${address.uid}.${record.run}.${call.id}`, body };
  };
  const caller = { agentId: record.agent_id, uid: address.uid, run: record.run, toolUseId: call.id };
  const outcome = await runTool(tool, call, { ...caller, workspace, tellParent, signal }, { offered, clock });
  return { outcome, interim };
}
