/**
 * Walks through the workspaces of this machine, as far as it is allowed to. Owns nothing; what lies there belongs to the
 * agents that the stamps name. Reads names, stamps and times, never files of an agent.
 */
import type { Dirent } from "node:fs";
import { lstat, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { z } from "zod";
import { AgentId, ParentId, TenantId } from "../../shared/protocol/ids.ts";
import type { ParentAddress } from "../../shared/protocol/keys.ts";
import { agentSegments, STAMP_NAME, WorkspaceStamp } from "../../shared/protocol/workspace.ts";
import { inBatches } from "../../shared/redis/batches.ts";

/** A workspace as it lies on the disk. */
export interface FoundWorkspace extends ParentAddress {
  /** Below the root: `<tenant>/<parent>/agents/<agent_id>`. */
  path: string;
  agentId: string;
  /** Undefined: no stamp that can be read. */
  uid: string | undefined;
}

/** Nothing in a workspace has changed for so long: it may be deleted when its agent is over. */
export const OLD_WORKSPACE_MS = 30 * 86_400_000;

const MOST_DIRECTORIES = 20_000;
/** A workspace with more entries than this counts as young: it is not walked to its end. */
const MOST_ENTRIES = 10_000;
const BATCH = 32;

/** The workspaces below `root`; undefined when there is no such directory. */
export async function surveyWorkspaces(
  root: string,
): Promise<{ found: FoundWorkspace[]; isCut: boolean } | undefined> {
  if (!(await isDirectory(root))) return undefined;
  const places: Omit<FoundWorkspace, "uid">[] = [];
  for (const tenant of await directoriesIn(root, TenantId)) {
    for (const parentId of await directoriesIn(join(root, tenant), ParentId)) {
      const owner = { tenant, parentId };
      const agents = join(root, ...agentSegments(owner, "."));
      for (const agentId of await directoriesIn(agents, AgentId)) {
        if (places.length >= MOST_DIRECTORIES) return { found: await stamped(root, places), isCut: true };
        places.push({ ...owner, agentId, path: join(...agentSegments(owner, agentId)) });
      }
    }
  }
  return { found: await stamped(root, places), isCut: false };
}

function stamped(root: string, places: readonly Omit<FoundWorkspace, "uid">[]): Promise<FoundWorkspace[]> {
  return inBatches(places, BATCH, async (place) => ({
    ...place,
    uid: await stampIn(join(root, place.path)),
  }));
}

/** The uid that the stamp of an agent's directory names; undefined without one that can be read. */
export async function stampIn(directory: string): Promise<string | undefined> {
  try {
    const path = join(directory, STAMP_NAME);
    if (!(await lstat(path)).isFile()) return undefined;
    return WorkspaceStamp.safeParse(JSON.parse(await readFile(path, "utf8"))).data?.uid;
  } catch {
    return undefined;
  }
}

/** Whether nothing below `directory` has changed since `sinceMs` (epoch ms of this machine). */
export async function isUntouchedSince(directory: string, sinceMs: number): Promise<boolean> {
  let left = MOST_ENTRIES;
  const isUntouched = async (path: string, isFolder: boolean): Promise<boolean> => {
    left -= 1;
    if (left < 0 || (await lstat(path)).mtimeMs > sinceMs) return false;
    if (!isFolder) return true;
    for (const entry of await readdir(path, { withFileTypes: true })) {
      if (!(await isUntouched(join(path, entry.name), entry.isDirectory()))) return false;
    }
    return true;
  };
  return isUntouched(directory, true).catch(() => false);
}

/**
 * Deletes an agent's directory unless another agent has taken it meanwhile; answers whether it is gone. It is moved
 * aside first, so that nobody ever opens half of it.
 */
export async function deleteWorkspace(root: string, { path, uid }: FoundWorkspace): Promise<boolean> {
  const directory = join(root, path);
  const aside = join(root, path, "..", `.deleted-${uid}`);
  if (uid === undefined || (await stampIn(directory)) !== uid) return false;
  await rm(aside, { recursive: true, force: true });
  await rename(directory, aside);
  if ((await stampIn(aside)) !== uid) {
    await rename(aside, directory);
    return false;
  }
  await rm(aside, { recursive: true, force: true });
  return true;
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    return false;
  }
}

/** Names of the directories in a directory that could be ids of this form; none where it cannot be read. */
async function directoriesIn(path: string, form: z.ZodType<string>): Promise<string[]> {
  const entries: Dirent[] = await readdir(path, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isDirectory() && form.safeParse(entry.name).success)
    .map(({ name }) => name);
}
