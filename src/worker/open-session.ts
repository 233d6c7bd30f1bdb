/** Prepares a claimed run: its rules, its tools, its workspace; says so when earlier files are not on this machine. */
import type { AgentAddress } from "../shared/protocol/keys.ts";
import { entryKey } from "../shared/protocol/log.ts";
import { ASK_TOOL } from "../shared/protocol/question.ts";
import type { AgentState } from "../shared/redis/agent-store.ts";
import type { Lease } from "./lease.ts";
import { viewRun } from "./loop/run-view.ts";
import { reporterOf } from "./progress.ts";
import type { RunContext } from "./run-context.ts";
import { Session } from "./session.ts";
import { openWorkspace } from "./tools/workspace.ts";
import { traceBeside } from "./trace.ts";

const FILES_GONE =
  "Your work continues on another machine: files that you wrote to your workspace earlier are not there any more.";

/** The session of a claimed run; `onStep` is told of each step it commits. Rejects when the workspace cannot be made. */
export async function openSession(
  context: RunContext,
  address: AgentAddress,
  state: AgentState,
  lease: Lease,
  onStep: () => void,
): Promise<Session> {
  const { record } = state;
  const { tools: known, unknown } = context.toolbox.resolve(record.spec.tools);
  const tools = known.filter(({ name }) => name !== ASK_TOOL || record.spec.answer_ms !== undefined);
  if (unknown.length > 0)
    context.logger.warn({ uid: record.uid, tools: unknown }, "This worker does not have some tools");
  const { workspace, state: found } = await openWorkspace({
    root: context.workspaceRoot,
    tenant: address.tenant,
    parentId: address.parentId,
    agentId: record.agent_id,
    uid: record.uid,
    roots: context.roots,
    expected: state.log.size > 0,
    clock: context.clock,
  });
  const session = new Session(context.store, address, state, lease, {
    rules: {
      limits: record.spec.limits,
      ...(record.spec.alerts && { alerts: record.spec.alerts }),
      model: record.spec.model,
      idempotentTools: new Set(tools.filter((tool) => tool.idempotent).map((tool) => tool.name)),
      canAsk: tools.some(({ name }) => name === ASK_TOOL),
    },
    tools,
    workspace,
    report: reporterOf(context, address, record),
    onStep,
    ...(context.traced && { trace: traceBeside(workspace.directory, context.clock, context.logger) }),
  });
  session.report.runStarted(record.spec.limits.max_turns, context.workerId);
  if (found === "missing_stamp") {
    const { userMessage } = viewRun(session.known());
    await session.commit([[entryKey.notice(userMessage), { v: 1, text: FILES_GONE }]]);
  }
  return session;
}
