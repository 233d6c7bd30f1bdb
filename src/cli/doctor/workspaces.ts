/**
 * The workspaces of this machine beside the agents: whose is each of them, and whose is missing. Reads names, stamps and
 * times, never an agent's files; deletes a directory only when asked to, and only the one that its stamp names.
 */
import { execFile } from "node:child_process";
import type { Dirent } from "node:fs";
import { lstat, readdir, rename, stat } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { z } from "zod";
import type { Clock } from "../../shared/clock.ts";
import { AgentId, agentSegments, ParentId, STAMP_NAME, TenantId } from "../../shared/protocol/ids.ts";
import type { AgentStore } from "../../shared/redis/agent-store.ts";
import {
  type AgentInspection,
  type AgentSnapshot,
  inBatches,
  isLive,
} from "../../shared/redis/inspection.ts";
import { unlessMistyped } from "../../shared/redis/key-types.ts";
import { readStamp } from "../../worker/tools/workspace.ts";
import { agentName, type WorkspaceFacts, type WorkspaceSnapshot } from "./facts.ts";

/** What is needed to find out whose a workspace is. */
export interface WorkspaceContext {
  workspaceRoot: string;
  /** This machine's: files have no other time. */
  clock: Clock;
  inspection: AgentInspection;
  store: Pick<AgentStore, "uidOf" | "hasBegun">;
}

/** Where an agent's directory is, and as which agent's its stamp names it. */
type Place = Omit<WorkspaceSnapshot, "uid" | "agentState" | "isDeletable">;
type FoundWorkspace = Place & Pick<WorkspaceSnapshot, "uid">;

/** A workspace may be deleted when nothing in it has changed for so long and its agent has ended. */
export const OLD_WORKSPACE_MS = 30 * 86_400_000;

/** The tools that leave files in the workspace; an agent that used none of them need not have one. */
const WRITERS: ReadonlySet<string> = new Set(["bash", "edit_file", "write_file"]);
const BATCH = 64;
/** A worker makes the directory first and then, within this time, its stamp. */
const STAMP_MS = 1_500;
const MOST_DIRECTORIES = 20_000;
/** A workspace with more entries than this counts as young: it is not walked to its end. */
const MOST_ENTRIES = 10_000;

/** Looks at every workspace of this machine; `agents` are those that were seen in Redis just before. */
export async function readWorkspaces(
  context: WorkspaceContext,
  agents: readonly AgentSnapshot[],
): Promise<WorkspaceFacts> {
  const { workspaceRoot: root, clock } = context;
  const places = await placesIn(root);
  if (!places) return { root, isThere: false, directories: [], missing: [], isCut: false };
  const known = new Map(agents.flatMap((each) => (each.record ? [[each.address.uid, each] as const] : [])));
  const look = async (place: Place): Promise<WorkspaceSnapshot> => {
    const found = { ...place, uid: await stampIn(join(root, place.path)) };
    const seen = known.get(found.uid ?? "");
    const agentState = seen ? (isLive(seen) ? "live" : "ended") : await agentStateOf(context, found);
    const isOver = agentState !== "live" && found.uid !== undefined;
    const sinceMs = clock.now() - OLD_WORKSPACE_MS;
    const isDeletable = isOver && (await isUntouchedSince(join(root, found.path), sinceMs));
    return { ...found, agentState, isDeletable };
  };
  const first = await inBatches(places.slice(0, MOST_DIRECTORIES), BATCH, look);
  if (first.some(({ uid }) => uid === undefined)) await clock.sleep(STAMP_MS);
  const directories = await inBatches(first, BATCH, async (snapshot) =>
    snapshot.uid === undefined ? look(snapshot) : snapshot,
  );
  const missing = await findMissing(context, agents);
  return { root, isThere: true, directories, missing, isCut: places.length > MOST_DIRECTORIES };
}

/** What became of the agent that a stamp names; asked anew, so that it can be relied on before anything is deleted. */
export async function agentStateOf(
  { inspection, store }: Pick<WorkspaceContext, "inspection" | "store">,
  { tenant, parentId, agentId, uid }: FoundWorkspace,
): Promise<WorkspaceSnapshot["agentState"]> {
  if (uid === undefined) return "unknown";
  const address = { tenant, parentId, uid };
  const { snapshots, unreadable } = await inspection.inspect([address], Number.POSITIVE_INFINITY);
  if (unreadable.length > 0 || snapshots.some(isLive)) return "live";
  if (snapshots[0]?.record) return "ended";
  // Of a registry that cannot be read, nothing follows: such a workspace stays.
  const named = await unlessMistyped(store.uidOf(address, agentId), null);
  if (named === null) return "live";
  return named === uid ? "ended" : "unknown";
}

/** Live agents that have written files and whose stamp is not on this machine. */
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

/** The places of workspaces below `root`; undefined when there is no such directory. */
export async function placesIn(root: string): Promise<Place[] | undefined> {
  if (!(await stat(root).catch(() => undefined))?.isDirectory()) return undefined;
  const places: Place[] = [];
  for (const tenant of await directoriesIn(root, TenantId)) {
    for (const parentId of await directoriesIn(join(root, tenant), ParentId)) {
      const owner = { tenant, parentId };
      for (const agentId of await directoriesIn(join(root, ...agentSegments(owner, ".")), AgentId))
        places.push({ ...owner, agentId, path: join(...agentSegments(owner, agentId)) });
    }
  }
  return places;
}

/** The uid that the stamp of an agent's directory names; undefined without one that can be read. */
export async function stampIn(directory: string): Promise<string | undefined> {
  return (await readStamp(join(directory, STAMP_NAME)).catch(() => "")) || undefined;
}

/** Whether nothing below `directory` has changed since `sinceMs` (epoch ms of this machine). */
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

/**
 * Deletes an agent's directory unless another agent has taken it meanwhile; answers whether it is gone. It is moved
 * aside first, so that no worker ever opens half of it.
 */
export async function deleteWorkspace(root: string, { path, uid }: FoundWorkspace): Promise<boolean> {
  const directory = join(root, path);
  const aside = join(root, path, "..", `.deleted-${uid}`);
  if (uid === undefined || (await stampIn(directory)) !== uid) return false;
  await removeTree(aside);
  await rename(directory, aside);
  if ((await stampIn(aside)) !== uid) {
    await rename(aside, directory);
    return false;
  }
  await removeTree(aside);
  return true;
}

/**
 * Removes a directory that an agent filled. With the system's programs: Node's own follow paths, and directories deeper than a
 * path can name, or closed to their owner, would stay for ever.
 */
async function removeTree(directory: string): Promise<void> {
  await promisify(execFile)("chmod", ["-R", "u+rwX", "--", directory]).catch(() => undefined);
  await promisify(execFile)("rm", ["-rf", "--", directory]);
}

/** Names of the directories in a directory that could be ids of this form; none where it cannot be read. */
async function directoriesIn(path: string, form: z.ZodType<string>): Promise<string[]> {
  const entries: Dirent[] = await readdir(path, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isDirectory() && form.safeParse(entry.name).success)
    .map(({ name }) => name);
}
