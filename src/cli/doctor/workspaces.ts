/** Holds the workspaces of this machine against the agents: whose is each of them, and whose is missing. */
import { join } from "node:path";
import type { Clock } from "../../shared/clock.ts";
import type { AgentAddress } from "../../shared/protocol/keys.ts";
import { agentSegments } from "../../shared/protocol/workspace.ts";
import type { AgentInspection } from "../../shared/redis/agent-inspection.ts";
import { type AgentSight, isLive } from "../../shared/redis/agent-sight.ts";
import type { AgentStore } from "../../shared/redis/agent-store.ts";
import { inBatches } from "../../shared/redis/batches.ts";
import type { WorkspaceFacts, WorkspaceSight } from "./facts.ts";
import { agentName } from "./names.ts";
import {
  type FoundWorkspace,
  isUntouchedSince,
  OLD_WORKSPACE_MS,
  stampIn,
  surveyWorkspaces,
} from "./workspace-survey.ts";

/** What is needed to find out whose a workspace is. */
export interface WorkspaceContext {
  root: string;
  /** This machine's: files have no other time. */
  clock: Clock;
  inspection: AgentInspection;
  store: Pick<AgentStore, "uidOf">;
}

const BATCH = 64;
const SECOND_LOOK_MS = 1_500;

/** Looks at every workspace of this machine; `agents` are those that were seen in Redis just before. */
export async function readWorkspaces(
  context: WorkspaceContext,
  agents: readonly AgentSight[],
): Promise<WorkspaceFacts> {
  const { root, clock } = context;
  const survey = await surveyWorkspaces(root);
  if (!survey) return { root, isThere: false, directories: [], missing: [], isCut: false };
  const known = new Map(agents.filter(({ record }) => record).map((sight) => [sight.address.uid, sight]));
  const first = await inBatches(survey.found, BATCH, (found) => lookAt(context, known, found));
  // A worker makes the directory first and then its stamp.
  const isUnstamped = ({ uid }: WorkspaceSight) => uid === undefined;
  if (first.some(isUnstamped)) await clock.sleep(SECOND_LOOK_MS);
  const second = await inBatches(first.filter(isUnstamped), BATCH, async (found) =>
    lookAt(context, known, { ...found, uid: await stampIn(join(root, found.path)) }),
  );
  const directories = [...first.filter((found) => !isUnstamped(found)), ...second];
  return { root, isThere: true, directories, missing: await findMissing(root, agents), isCut: survey.isCut };
}

async function lookAt(
  context: WorkspaceContext,
  known: ReadonlyMap<string, AgentSight>,
  found: FoundWorkspace,
): Promise<WorkspaceSight> {
  const seen = known.get(found.uid ?? "");
  const fate = seen ? (isLive(seen) ? "live" : "ended") : await fateOf(context, found);
  const mayBeOld = fate !== "live" && found.uid !== undefined;
  const sinceMs = context.clock.now() - OLD_WORKSPACE_MS;
  return {
    ...found,
    fate,
    isOld: mayBeOld && (await isUntouchedSince(join(context.root, found.path), sinceMs)),
  };
}

/** What became of the agent that a stamp names; asked anew, so that it can be relied on before anything is deleted. */
export async function fateOf(
  { inspection, store }: Pick<WorkspaceContext, "inspection" | "store">,
  { tenant, parentId, agentId, uid }: FoundWorkspace,
): Promise<WorkspaceSight["fate"]> {
  if (uid === undefined) return "unknown";
  const address: AgentAddress = { tenant, parentId, uid };
  const { sights, unreadable } = await inspection.inspect([address], Number.POSITIVE_INFINITY);
  const [sight] = sights;
  if (unreadable.length > 0 || (sight && isLive(sight))) return "live";
  if (sight?.record) return "ended";
  return (await store.uidOf(address, agentId)) === uid ? "ended" : "unknown";
}

/** Live agents that have worked and whose stamp is not on this machine. */
async function findMissing(root: string, agents: readonly AgentSight[]): Promise<string[]> {
  const worked = agents.filter(isLive).filter(({ log }) => log > 0);
  const missing = await inBatches(worked, BATCH, async ({ address, record }) => {
    const stamp = await stampIn(join(root, ...agentSegments(address, record.agentId)));
    return stamp === address.uid ? [] : [agentName(address, record.agentId)];
  });
  return missing.flat();
}
