/** The files of a parent's agents, on the volume that the parent's process shares with the workers. */
import { SubagentError } from "../shared/errors.ts";
import {
  listFiles,
  readWorkspaceFile,
  type WorkspaceAddress,
  type WorkspaceFile,
} from "../shared/workspace-files.ts";
import { withAgent } from "./agents.ts";
import type { ParentContext } from "./context.ts";

/** The files of a parent's agent; see `Parent.files`. */
export async function filesOf(context: ParentContext, agentId: string): Promise<WorkspaceFile[]> {
  return listFiles(await workspaceOf(context, agentId));
}

/** One file of a parent's agent; see `Parent.readFile`. */
export async function readFileOf(context: ParentContext, agentId: string, path: string): Promise<Buffer> {
  return readWorkspaceFile(await workspaceOf(context, agentId), path);
}

/** Where the files of an agent are. Rejects with `unknown_agent`, `invalid_config` for a client that was not told. */
function workspaceOf(context: ParentContext, agentId: string): Promise<WorkspaceAddress> {
  return withAgent(context, agentId, async ({ client: { workspaceRoot: root } }, agent) => {
    if (root !== undefined) return { root, ...agent };
    throw new SubagentError(
      "invalid_config",
      "This client does not know where workspaces lie: give createClient the workers' workspaceRoot.",
    );
  });
}
