/**
 * An agent's workspace on this machine, and the areas its tools may touch.
 *
 * Owns: the directory layout `<root>/<tenant>/<parent>/agents/<agent_id>/`, the stamp, the order of writing tools.
 * Neighbours: `roots.ts` reads which directories the operator opened; `files/` owns what a path may reach.
 *
 * 1. The stamp stands beside `workspace/`, out of the model's reach, and names the agent's uid.
 * 2. Files of another uid are never shown: a directory without our stamp is set aside, not adopted and not deleted.
 * 3. Everything made here is readable by its owner only.
 */
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { access, link, lstat, mkdir, readFile, realpath, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import { agentSegments, FILES_NAME, STAMP_NAME, WorkspaceStamp } from "../../shared/protocol/ids.ts";
import type { OpenRoot } from "./roots.ts";

/** A directory tree that tools may touch. */
export interface Area {
  readonly kind: "workspace" | "root";
  /** Host path without symbolic links. */
  readonly path: string;
  /** The name models see: `.` for the workspace, the operator's spelling for a root. */
  readonly shownAs: string;
  readonly writable: boolean;
}

/** What the tools of one agent may touch. */
export interface Workspace {
  /** Host path of the workspace; for the sandbox and the parent's file access, never shown to a model. */
  readonly directory: string;
  /** The workspace itself. */
  readonly home: Area;
  /** The directories the operator opened. */
  readonly roots: readonly Area[];
  /** Host path of all workspaces: unreachable through a root that happens to contain it. */
  readonly hidden: string;
  /** Runs `work` after everything handed in before it, so that edits of one turn do not overwrite each other. */
  exclusive<Result>(work: () => Promise<Result>): Promise<Result>;
}

/** Which workspace to open. `expected` says that the agent has worked before. */
export interface OpenWorkspaceOptions {
  /** Host path of all workspaces; made when absent. */
  readonly root: string;
  readonly tenant: string;
  readonly parentId: string;
  readonly agentId: string;
  readonly uid: string;
  readonly roots: readonly OpenRoot[];
  readonly expected: boolean;
  readonly clock: Clock;
}

/** The workspace; `missing_stamp` means that it was expected but its files are not on this machine. */
export interface OpenedWorkspace {
  readonly workspace: Workspace;
  readonly state: "created" | "found" | "missing_stamp";
}

const SEGMENT = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const STAMP_ATTEMPTS = 3;
const DIRECTORY_MODE = 0o700;
const FILE_MODE = 0o600;

/**
 * Opens the workspace of an agent, making it when it is not there.
 *
 * Rejects with `invalid_input` when an id is not a plain path segment, `setup_failed` when the disk refuses.
 */
export async function openWorkspace(options: OpenWorkspaceOptions): Promise<OpenedWorkspace> {
  const ids = [options.tenant, options.parentId, options.agentId, options.uid];
  const bad = ids.find((id) => typeof id !== "string" || !SEGMENT.test(id));
  if (bad !== undefined) {
    throw new SubagentError("invalid_input", `${JSON.stringify(bad)} cannot name a directory.`);
  }
  try {
    await mkdir(options.root, { recursive: true, mode: DIRECTORY_MODE });
    const hidden = await realpath(options.root);
    const agentDirectory = join(hidden, ...agentSegments(options, options.agentId));
    const directory = join(agentDirectory, FILES_NAME);
    await mkdir(agentDirectory, { recursive: true, mode: DIRECTORY_MODE });
    const stamp = await claimStamp(agentDirectory, options);
    const made = await mkdir(directory, { recursive: true, mode: DIRECTORY_MODE });
    const kept = stamp === "found" && made === undefined;
    return {
      workspace: createWorkspace(directory, hidden, options.roots),
      state: kept ? "found" : options.expected ? "missing_stamp" : "created",
    };
  } catch (cause) {
    throw new SubagentError(
      "setup_failed",
      `The workspace of ${options.agentId} cannot be opened (${messageOf(cause)}).`,
      {},
      cause,
    );
  }
}

/** Longest time that making the directory of all workspaces may take: some file systems never answer. */
const PROBE_LIMIT_MS = 5_000;
/** That time is counted in looks: a process that got no time itself has not waited for the file system. */
const PROBE_LOOK_MS = 100;

/** Rejects with `setup_failed` unless workspaces can be made below `root`; makes it when it is not there. */
export async function requireWritable(root: string, clock: Clock): Promise<void> {
  const probe = async () => {
    await mkdir(root, { recursive: true, mode: DIRECTORY_MODE });
    await access(root, constants.W_OK | constants.X_OK);
    return undefined;
  };
  const given = new AbortController();
  const late = async () => {
    for (let waitedMs = 0; waitedMs < PROBE_LIMIT_MS && !given.signal.aborted; waitedMs += PROBE_LOOK_MS)
      await clock.sleep(PROBE_LOOK_MS, given.signal);
    return "no answer";
  };
  const problem = await Promise.race([probe().catch(messageOf), late()]).finally(() => given.abort());
  if (problem === undefined) return;
  throw new SubagentError(
    "setup_failed",
    `Workspaces cannot be written to ${root} (${problem}): name another directory, e.g. in SUBAGENT_WORKSPACES.`,
    { root },
  );
}

function createWorkspace(directory: string, hidden: string, roots: readonly OpenRoot[]): Workspace {
  let last: Promise<unknown> = Promise.resolve();
  return {
    directory,
    hidden,
    home: { kind: "workspace", path: directory, shownAs: ".", writable: true },
    roots: roots.map((root) => ({
      kind: "root",
      path: root.realPath,
      shownAs: root.path,
      writable: root.mode === "rw",
    })),
    exclusive(work) {
      const mine = last.then(work);
      last = mine.catch(() => undefined);
      return mine;
    },
  };
}

/** Leaves our stamp beside the workspace; what stood there under another one is set aside first. */
async function claimStamp(
  agentDirectory: string,
  { uid, clock }: OpenWorkspaceOptions,
): Promise<"found" | "stamped"> {
  const path = join(agentDirectory, STAMP_NAME);
  const directory = join(agentDirectory, FILES_NAME);
  const draft = join(agentDirectory, `${STAMP_NAME}.${randomUUID()}`);
  for (let attempt = 0; attempt < STAMP_ATTEMPTS; attempt++) {
    const found = await readStamp(path);
    if (found === uid) return "found";
    // Seen before our stamp is there: whatever another opener makes after it is ours, too, and stays.
    const foreign = await isThere(directory);
    const aside = join(agentDirectory, `former-${clock.now()}-${randomUUID()}`);
    if (found !== undefined) await renameIfThere(path, `${aside}${STAMP_NAME}`);
    try {
      await writeFile(draft, JSON.stringify({ v: 1, uid, created_at: new Date(clock.now()).toISOString() }), {
        flag: "wx",
        mode: FILE_MODE,
      });
      // A link is made whole or not at all, and never over a stamp that another process left meanwhile.
      await link(draft, path);
      if (foreign) await renameIfThere(directory, aside);
      return "stamped";
    } catch (error) {
      if (!isErrno(error, "EEXIST")) throw error;
    } finally {
      await rm(draft, { force: true });
    }
  }
  throw new SubagentError("setup_failed", "Another worker keeps claiming this workspace.");
}

/** The uid in the stamp; `undefined` without a stamp, and the empty text when it cannot be understood. */
export async function readStamp(path: string): Promise<string | undefined> {
  let text: string;
  try {
    if (!(await lstat(path)).isFile()) return "";
    text = await readFile(path, "utf8");
  } catch (error) {
    if (isErrno(error, "ENOENT")) return undefined;
    throw error;
  }
  try {
    return WorkspaceStamp.parse(JSON.parse(text)).uid;
  } catch {
    return "";
  }
}

async function isThere(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (isErrno(error, "ENOENT")) return false;
    throw error;
  }
}

async function renameIfThere(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    if (!isErrno(error, "ENOENT")) throw error;
  }
}

function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
