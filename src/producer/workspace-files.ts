/** Files of a parent's agents, on the volume that the parent's process shares with the workers. */
import { SubagentError } from "../shared/errors.ts";
import type { ParentAddress } from "../shared/protocol/keys.ts";
import {
  listFiles,
  type OpenWorkspaceFile,
  openWorkspaceFile,
  readWorkspaceFile,
  type WorkspaceAddress,
  type WorkspaceFile,
} from "../shared/workspace-files.ts";
import { type FoundAgent, findAgent, withAgent } from "./agents.ts";
import type { ClientResources } from "./client-resources.ts";
import type { ParentContext } from "./parent-context.ts";

/** Lists the files of a parent's agent; see `Parent.files`. After the abort of `signal` the list ends where it is. */
export async function filesOf(
  context: ParentContext,
  agentId: string,
  signal?: AbortSignal,
): Promise<WorkspaceFile[]> {
  const workspace = await workspaceOf(context, agentId);
  const { listingLineOf } = await context.open();
  return listingLineOf(context.profile.parent.tenant)(() => listFiles(workspace, { signal }));
}

/** Reads one file of a parent's agent; see `Parent.readFile`. */
export async function readFileOf(context: ParentContext, agentId: string, path: string): Promise<Buffer> {
  return readWorkspaceFile(await workspaceOf(context, agentId), path);
}

/** Opens a file of an agent of `parent`; the caller closes the handle. Rejects as `Parent.readFile` does. */
export async function openFileOf(
  client: ClientResources,
  parent: ParentAddress,
  agentId: string,
  path: string,
): Promise<OpenWorkspaceFile> {
  const agent = await client.call((call) => findAgent({ client, parent, ...call }, agentId));
  return openWorkspaceFile(workspaceIn(client, agent), path);
}

function workspaceOf(context: ParentContext, agentId: string): Promise<WorkspaceAddress> {
  return withAgent(context, agentId, async ({ client }, agent) => workspaceIn(client, agent));
}

/** Returns the workspace of an agent. Throws `invalid_config` if the client has no `workspaceRoot`. */
function workspaceIn({ workspaceRoot: root }: ClientResources, agent: FoundAgent): WorkspaceAddress {
  if (root !== undefined) return { root, ...agent };
  throw new SubagentError(
    "invalid_config",
    "This client does not know where workspaces lie: give createClient the workers' workspaceRoot.",
  );
}
