/** Where an agent's files lie below the directory of all workspaces, and the stamp that says whose they are. */
import { z } from "zod";
import type { ParentAddress } from "./keys.ts";

/** The agent's directory, component by component; it holds the stamp and, in {@link FILES_NAME}, the files. */
export function agentSegments({ tenant, parentId }: ParentAddress, agentId: string): string[] {
  return [tenant, parentId, "agents", agentId];
}

/** The directory that tools see as `.`. */
export const FILES_NAME = "workspace";
/** The stamp's file, beside the workspace and out of its tools' reach. */
export const STAMP_NAME = ".stamp.json";
/** Files in a workspace whose names begin so are half-written. */
export const DRAFT_PREFIX = ".subagent-queue-draft-";

/** The stamp: a workspace belongs to the agent with this uid. */
export const WorkspaceStamp = z.object({ v: z.literal(1), uid: z.string(), created_at: z.string() });
