/**
 * Compares the workspaces on this host with the agents: the owner of each, and the missing ones. Reads names, stamps and
 * times, never an agent's files. Deletes a directory only on request, and only if its stamp still names the agent.
 */
import { execFile } from "node:child_process";
import type { Dirent } from "node:fs";
import { lstat, readdir, rename, stat } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { inBatches } from "../../shared/batch.ts";
import type { Clock } from "../../shared/clock.ts";
import { isDiskFull } from "../../shared/disk.ts";
import { unlessMistyped } from "../../shared/errors.ts";
import { AgentId, agentSegments, folderOf, OwnerFolder, STAMP_NAME } from "../../shared/protocol/ids.ts";
import type { AgentStore } from "../../shared/redis/agent-store.ts";
import { type AgentInspection, type AgentSnapshot, isLive } from "../../shared/redis/inspection.ts";
import { hasNoFiles, readStamp } from "../../worker/tools/workspace.ts";
import { agentName, type WorkspaceFacts, type WorkspaceSnapshot } from "./facts.ts";

/** The means to find the agent of a workspace. */
export interface WorkspaceContext {
  workspaceRoot: string;
  prefix?: string;
  /** Clock of this host, because files have its times. */
  clock: Clock;
  inspection: AgentInspection;
  store: Pick<AgentStore, "uidOf" | "hasBegun">;
}

/** An agent's directory by its path; {@link FoundWorkspace} adds the uid in its stamp. */
type FoundDirectory = Omit<WorkspaceSnapshot, "uid" | "agentState" | "isDeletable">;
type FoundWorkspace = FoundDirectory & Pick<WorkspaceSnapshot, "uid">;

/** A workspace may be deleted if it is unchanged for this long and its agent has ended, ms. */
export const OLD_WORKSPACE_MS = 30 * 86_400_000;

/** Tools that write files; an agent that used none of them need not have a workspace. */
const WRITERS: ReadonlySet<string> = new Set(["bash", "edit_file", "write_file"]);
/** Begins the name of a workspace that is being deleted; its uid follows. */
const ASIDE = ".deleted-";
const Folder = AgentId.or(z.string().regex(/^\.deleted-sa-[0-9a-f]{24}$/));
const BATCH = 64;
/** A worker creates the directory first and, within this time, its stamp, ms. */
const STAMP_MS = 1_500;
const MOST_DIRECTORIES = 20_000;
/** A workspace with more entries than this counts as changed: the rest is not read. */
const MOST_ENTRIES = 10_000;

/** Examines the workspaces on this host; `agents` are the snapshots just read from Redis. */
export async function readWorkspaces(
  context: WorkspaceContext,
  agents: readonly AgentSnapshot[],
): Promise<WorkspaceFacts> {
  const { workspaceRoot: root, prefix, clock } = context;
  const listed = await findDirectories(root);
  if (!listed) return { root, isThere: false, isFull: false, directories: [], missing: [], isCut: false };
  const known = new Map(agents.flatMap((each) => (each.record ? [[each.address.uid, each] as const] : [])));
  const readWorkspace = async (directory: FoundDirectory): Promise<WorkspaceSnapshot> => {
    const place = join(root, directory.path);
    const found = { ...directory, uid: (await stampIn(place, prefix)) ?? directory.agentId.split(ASIDE)[1] };
    const seen = known.get(found.uid ?? "");
    const state = seen ? (isLive(seen) ? "live" : "ended") : await agentStateOf(context, found);
    const agentState = state === "unknown" && (await hasNoFiles(place)) ? "empty" : state;
    const isOver = agentState !== "live" && found.uid !== undefined;
    const isDeletable = isOver && (await isUntouchedSince(place, clock.now() - OLD_WORKSPACE_MS));
    return { ...found, agentState, isDeletable };
  };
  const first = await inBatches(listed.slice(0, MOST_DIRECTORIES), BATCH, readWorkspace);
  if (first.some(({ uid }) => uid === undefined)) await clock.sleep(STAMP_MS);
  const again = async (seen: WorkspaceSnapshot) => (seen.uid === undefined ? readWorkspace(seen) : seen);
  const directories = await inBatches(first, BATCH, again);
  const [missing, isFull] = [await findMissing(context, agents), await isDiskFull(root)];
  return { root, isThere: true, isFull, directories, missing, isCut: listed.length > MOST_DIRECTORIES };
}

/** Returns the state of the agent that a stamp names, read from Redis now, so that a deletion can rely on it. */
export async function agentStateOf(
  { inspection, store }: Pick<WorkspaceContext, "inspection" | "store">,
  { tenant, parentId, agentId, uid }: FoundWorkspace,
): Promise<WorkspaceSnapshot["agentState"]> {
  if (uid === undefined) return "unknown";
  const address = { tenant, parentId, uid };
  const { snapshots, unreadable } = await inspection.inspect([address], Number.POSITIVE_INFINITY);
  if (unreadable.length > 0 || snapshots.some(isLive)) return "live";
  if (snapshots[0]?.record) return "ended";
  // A registry that cannot be read proves nothing, so the workspace stays.
  const named = await unlessMistyped(store.uidOf(address, agentId), null);
  if (named === null) return "live";
  return named === uid ? "ended" : "unknown";
}

/** Returns the live agents that have written files but have no stamp on this host. */
async function findMissing(
  { workspaceRoot: root, store }: WorkspaceContext,
  agents: readonly AgentSnapshot[],
): Promise<string[]> {
  const worked = agents.filter(isLive).filter(({ log }) => log > 0);
  const missing = await inBatches(worked, BATCH, async ({ address, record }) => {
    const stamp = await stampIn(join(root, ...agentSegments(address, record.agentId)));
    if (stamp === address.uid) return [];
    const hasWritten = await unlessMistyped(store.hasBegun(address, WRITERS), false);
    return hasWritten ? [agentName(address, record.agentId)] : [];
  });
  return missing.flat();
}

/** Returns the workspaces below `root`; undefined if it is no directory. */
export async function findDirectories(root: string): Promise<FoundDirectory[] | undefined> {
  if (!(await stat(root).catch(() => undefined))?.isDirectory()) return undefined;
  const found: FoundDirectory[] = [];
  for (const tenant of await directoriesIn(root, OwnerFolder)) {
    for (const parentId of await directoriesIn(join(root, folderOf(tenant)), OwnerFolder)) {
      const owner = { tenant, parentId };
      for (const agentId of await directoriesIn(join(root, ...agentSegments(owner, ".")), Folder))
        found.push({ ...owner, agentId, path: join(...agentSegments(owner, agentId)) });
    }
  }
  return found;
}

/** Returns the uid in the stamp of an agent's directory; undefined without a readable stamp, or if it names another `prefix`. */
export async function stampIn(directory: string, prefix?: string): Promise<string | undefined> {
  return (await readStamp(join(directory, STAMP_NAME), prefix).catch(() => "")) || undefined;
}

/** Returns true if nothing in `directory` has changed since `sinceMs` (epoch ms of this host). */
export async function isUntouchedSince(directory: string, sinceMs: number): Promise<boolean> {
  let left = MOST_ENTRIES;
  const isUntouched = async (path: string, isFolder: boolean): Promise<boolean> => {
    left -= 1;
    if (left < 0 || (await lstat(path)).mtimeMs > sinceMs) return false;
    if (!isFolder) return true;
    for (const entry of await readdir(path, { withFileTypes: true }))
      if (!(await isUntouched(join(path, entry.name), entry.isDirectory()))) return false;
    return true;
  };
  return isUntouched(directory, true).catch(() => false);
}

/** Deletes a directory unless another agent has taken it. Moves it aside first, so that no worker opens one half deleted. */
export async function deleteWorkspace(root: string, { path, uid }: FoundWorkspace): Promise<boolean> {
  const directory = join(root, path);
  const aside = join(directory, "..", `${ASIDE}${uid}`);
  if (directory !== aside) {
    if (uid === undefined || (await stampIn(directory)) !== uid) return false;
    await removeTree(aside);
    await rename(directory, aside);
    if ((await stampIn(aside)) !== uid) {
      await rename(aside, directory);
      return false;
    }
  }
  await removeTree(aside);
  return true;
}

/** Removes a directory with `chmod` and `rm`: Node's functions leave what is too deep for a path, or closed to its owner. */
async function removeTree(directory: string): Promise<void> {
  await promisify(execFile)("chmod", ["-R", "u+rwX", "--", directory]).catch(() => undefined);
  await promisify(execFile)("rm", ["-rf", "--", directory]);
}

/** Returns the subdirectories that match `form`, as it reads their names; none if the directory cannot be read. */
async function directoriesIn(path: string, form: z.ZodType<string>): Promise<string[]> {
  const entries: Dirent[] = await readdir(path, { withFileTypes: true }).catch(() => []);
  return entries.flatMap((each) => (each.isDirectory() && form.safeParse(each.name).data) || []);
}
