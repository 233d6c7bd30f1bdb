/**
 * An agent's workspace on this machine, and the areas its tools may touch.
 *
 * Owns the directory layout `<root>/<tenant>/<parent>/agents/<agent_id>/` (of names with capitals, `+planner` for `Planner`), the
 * stamp, the order of writing tools. `roots.ts` reads which directories the operator opened; `files/` limits what a path may reach.
 *
 * 1. The stamp is beside `workspace/`, out of the model's reach, and names the agent's uid.
 * 2. Files of another uid are never shown: a directory without our stamp is set aside, not adopted and not deleted.
 * 3. Only the owner may read the files and directories made here.
 */
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import {
  access,
  link,
  lstat,
  mkdir,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Clock } from "../../shared/clock.ts";
import { codeOf, messageOf, SubagentError } from "../../shared/errors.ts";
import { agentSegments, FILES_NAME, STAMP_NAME, WorkspaceStamp } from "../../shared/protocol/ids.ts";
import type { OpenRoot } from "./roots.ts";

/** A directory tree that tools may touch. */
export interface Area {
  readonly kind: "workspace" | "root";
  /** Host path without symbolic links. */
  readonly path: string;
  /** Name that models see: `.` for the workspace, the operator's spelling for a root. */
  readonly shownAs: string;
  readonly writable: boolean;
}

/** Areas that the tools of one agent may touch. */
export interface Workspace {
  /** Host path of the workspace; for the sandbox and the parent's file access, never shown to a model. */
  readonly directory: string;
  /** The workspace itself. */
  readonly home: Area;
  /** The directories the operator opened. */
  readonly roots: readonly Area[];
  /** Host path of all workspaces: unreachable even through a root that contains it. */
  readonly hidden: string;
  /** Host path of a file for the directory in which the agent's last command ended; absent: that is not kept. */
  readonly directoryFile?: string | undefined;
  /**
   * Runs `work` after all earlier calls, so that edits of one turn do not overwrite each other. In a tool, the wait for them
   * does not count against the time limit of the call.
   */
  exclusive<Result>(work: () => Promise<Result>): Promise<Result>;
}

/** Identity of the workspace to open. `expected`: the agent has worked before. */
export interface OpenWorkspaceOptions {
  /** Host path of all workspaces; created if absent. */
  readonly root: string;
  readonly tenant: string;
  readonly parentId: string;
  readonly agentId: string;
  readonly uid: string;
  /** Prefix of the agent's installation, for the stamp: several may share a directory. Default: none. */
  readonly prefix?: string | undefined;
  readonly roots: readonly OpenRoot[];
  readonly expected: boolean;
  readonly clock: Clock;
}

/** The workspace; `missing_stamp`: it was expected but its files are not on this machine. */
export interface OpenedWorkspace {
  readonly workspace: Workspace;
  readonly state: "created" | "found" | "missing_stamp";
}

const SEGMENT = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
/** One other opener may be faster at the directory, at the stamp that is there, and at ours; then its stamp is found. */
const STAMP_ATTEMPTS = 4;
const DIRECTORY_MODE = 0o700;
const FILE_MODE = 0o600;

/**
 * Opens the workspace of an agent; creates it if absent.
 *
 * Rejects with `invalid_input` if an id is no plain path segment, `setup_failed` if the disk refuses.
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
      workspace: createWorkspace(directory, hidden, options),
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

/** Time limit for creating the directory of all workspaces: some file systems never answer. */
const PROBE_LIMIT_MS = 5_000;
/** The limit is counted in sleeps of this length, because a suspended process has not waited for the file system. */
const PROBE_LOOK_MS = 100;

/** Rejects with `setup_failed` unless workspaces can be created below `root`; creates `root` if absent. */
export async function requireWritable(root: string, clock: Clock): Promise<void> {
  const probe = async () => {
    await createDirectories(root);
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

/** Creates `path` and its parents. Below a directory that takes none (`/proc`), a recursive `mkdir` of Node never ends. */
async function createDirectories(path: string): Promise<void> {
  const create = () => mkdir(path, { mode: DIRECTORY_MODE });
  try {
    await create().catch(async (error: unknown) => {
      if (codeOf(error) !== "ENOENT") throw error;
      await createDirectories(dirname(path));
      await create();
    });
  } catch (error) {
    if (codeOf(error) !== "EEXIST" || !(await stat(path)).isDirectory()) throw error;
  }
}

function createWorkspace(
  directory: string,
  hidden: string,
  { roots, uid }: Pick<OpenWorkspaceOptions, "roots" | "uid">,
): Workspace {
  let last: Promise<unknown> = Promise.resolve();
  return {
    directory,
    hidden,
    // By the uid: another agent of this name had commands of its own.
    directoryFile: join(dirname(directory), `.directory-${uid}`),
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

/**
 * Writes our stamp beside the workspace, after it has set aside what is there under another one or none. So a process that is killed
 * in between leaves no stamp under which the files of another agent would count as ours.
 */
async function claimStamp(
  agentDirectory: string,
  { uid, prefix, clock }: OpenWorkspaceOptions,
): Promise<"found" | "stamped"> {
  const path = join(agentDirectory, STAMP_NAME);
  const directory = join(agentDirectory, FILES_NAME);
  const draft = join(agentDirectory, `${STAMP_NAME}.${randomUUID()}`);
  for (let attempt = 0; attempt < STAMP_ATTEMPTS; attempt++) {
    // Looked at first: a directory that another opener makes beneath our stamp meanwhile is ours, and stays.
    const foreign = await inodeOf(directory);
    const found = await readStamp(path);
    if (found === uid) return "found";
    const aside = join(agentDirectory, `former-${clock.now()}-${randomUUID()}`);
    const stampAside = `${aside}${STAMP_NAME}`;
    const isForeign = async () => (await inodeOf(aside)) === foreign;
    const isFound = async () => (await readStamp(stampAside)) === found;
    if (foreign !== undefined && !(await moved(directory, aside, isForeign))) continue;
    if (found !== undefined && !(await moved(path, stampAside, isFound))) continue;
    try {
      const stamp = { v: 1, uid, prefix, created_at: new Date(clock.now()).toISOString() };
      await writeFile(draft, JSON.stringify(stamp), { flag: "wx", mode: FILE_MODE });
      // `link` is atomic, and never replaces a stamp that another process has written meanwhile.
      await link(draft, path);
      return "stamped";
    } catch (error) {
      if (codeOf(error) !== "EEXIST") throw error;
    } finally {
      await rm(draft, { force: true });
    }
  }
  throw new SubagentError("setup_failed", "Another worker keeps claiming this workspace.");
}

/** Moves `from` to `to`; if it was not the one that is meant, because another opener was faster, moves it back and returns false. */
async function moved(from: string, to: string, isMeant: () => Promise<boolean>): Promise<boolean> {
  await renameIfThere(from, to);
  if (await isMeant()) return true;
  await renameIfThere(to, from);
  return false;
}

/** Returns true if an agent's directory holds no file but its stamp: the agent has only read others. */
export async function hasNoFiles(agentDirectory: string): Promise<boolean> {
  const inside = [agentDirectory, join(agentDirectory, FILES_NAME)].map((each) => readdir(each));
  const names = await Promise.all(inside).catch(() => [[""]]);
  return names.flat().every((name) => name === STAMP_NAME || name === FILES_NAME);
}

/** Returns the uid in the stamp; `undefined` without a stamp, "" if the stamp is unreadable or names another `prefix`. */
export async function readStamp(path: string, prefix?: string): Promise<string | undefined> {
  let text: string;
  try {
    if (!(await lstat(path)).isFile()) return "";
    text = await readFile(path, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
  try {
    const stamp = WorkspaceStamp.parse(JSON.parse(text));
    return (stamp.prefix ?? prefix) === (prefix ?? stamp.prefix) ? stamp.uid : "";
  } catch {
    return "";
  }
}

/** Returns the number by which a file system knows what is at `path`; undefined if nothing is there. */
async function inodeOf(path: string): Promise<bigint | undefined> {
  try {
    return (await lstat(path, { bigint: true })).ino;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

async function renameIfThere(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
}
