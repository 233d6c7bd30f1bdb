/**
 * The workspace of a run, made when a tool first needs it: an agent that uses no file leaves no directory behind. The reply
 * lists the files in it at the end.
 */
import { createHash } from "node:crypto";
import type { Clock } from "../../shared/clock.ts";
import { SubagentError, ToolFailure } from "../../shared/errors.ts";
import { type LeftFile, MOST_LEFT_FILES } from "../../shared/protocol/reply.ts";
import { withoutSecrets } from "../../shared/secrets.ts";
import type { StopSignal } from "../../shared/stop-signal.ts";
import { listFiles, readWorkspaceFile, type WorkspaceAddress } from "../../shared/workspace-files.ts";
import { type OpenWorkspaceOptions, openWorkspace, type Workspace } from "../tools/workspace.ts";

/** Longest wait for a disk between two steps of a run, ms: a network disk may never answer. */
const DISK_MS = 30_000;
/** The same once the run is stopped: a disk that answers at all does so in this time. */
const STOPPED_DISK_MS = 1_000;

/**
 * Does `work` on the disk of the workspaces; a stop aborts its signal. Rejects with `setup_failed` if the disk does not answer in
 * {@link DISK_MS}, or {@link STOPPED_DISK_MS} after the stop: the outcome of `work`, which may go on, is then ignored.
 */
export function onDisk<T>(
  clock: Clock,
  stop: StopSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const given = new AbortController();
  return new Promise((resolve, reject) => {
    const giveUp = () => {
      given.abort();
      reject(new SubagentError("setup_failed", "The disk of the workspaces does not answer."));
    };
    let limit = clock.timeout(DISK_MS, giveUp);
    const forget = stop.onStop(() => {
      given.abort();
      limit.cancel();
      limit = clock.timeout(STOPPED_DISK_MS, giveUp);
    });
    const isOver = () => {
      limit.cancel();
      forget();
    };
    work(given.signal).then(resolve, reject).finally(isOver);
  });
}

/** See the module's header. `stop` ends its waits. */
export class RunWorkspace {
  readonly #options: OpenWorkspaceOptions;
  readonly #stop: StopSignal;
  #opening: Promise<Workspace> | undefined;
  #opened: Workspace | undefined;
  #areFilesGone = false;

  constructor(options: OpenWorkspaceOptions, stop: StopSignal) {
    this.#options = options;
    this.#stop = stop;
  }

  get opened(): Workspace | undefined {
    return this.#opened;
  }

  /** True if earlier files turned out not to be on this machine. */
  get areFilesGone(): boolean {
    return this.#areFilesGone;
  }

  /** Makes the workspace, once. Rejects if the disk refuses, or as {@link onDisk}. */
  open(): Promise<Workspace> {
    this.#opening ??= this.#open();
    return this.#opening;
  }

  async #open(): Promise<Workspace> {
    const opening = () => openWorkspace(this.#options);
    const { workspace, state } = await onDisk(this.#options.clock, this.#stop, opening);
    this.#opened = workspace;
    this.#areFilesGone = state === "missing_stamp";
    return workspace;
  }
}

/** The workspace of a tool that uses none; no text that the tool writes contains this directory's name. */
export const NO_WORKSPACE: Workspace = {
  directory: "\0no workspace\0",
  get home(): never {
    throw new ToolFailure("This tool was defined without the use of a workspace.");
  },
  roots: [],
  hidden: "\0no workspace\0",
  exclusive: (work) => work(),
};

/** Most files that are read, longest listed path in bytes, and most bytes that are read for digests. */
const MOST_SEEN = 1_000;
const PATH_MAX_BYTES = 256;
const MOST_DIGESTED_BYTES = 32 * 1024 * 1024;

/** The files in a reply; empty if there are none. `more_files`: there are others, or may be. */
export interface LeftFiles {
  files?: LeftFile[];
  more_files?: true;
}

/** Lists the files in a workspace. Never rejects: a reply does not fail because of its list. */
export async function leftFiles(workspace: WorkspaceAddress): Promise<LeftFiles> {
  const all = await listFiles(workspace, { most: MOST_SEEN }).catch(() => undefined);
  // An agent may lock its workspace by a command.
  if (!all) return { more_files: true };
  const listed = all
    .filter(({ path }) => Buffer.byteLength(path) <= PATH_MAX_BYTES)
    .slice(0, MOST_LEFT_FILES);
  const files: LeftFile[] = [];
  let left = MOST_DIGESTED_BYTES;
  for (const { path, size_bytes } of listed) {
    const bytes =
      size_bytes <= left ? await readWorkspaceFile(workspace, path).catch(() => undefined) : undefined;
    left -= bytes?.length ?? 0;
    const sha256 = bytes && createHash("sha256").update(bytes).digest("hex");
    files.push({
      path: withoutSecrets(path),
      size_bytes: bytes?.length ?? size_bytes,
      ...(sha256 && { sha256 }),
    });
  }
  return {
    ...(files.length > 0 && { files }),
    ...(all.length > files.length && { more_files: true }),
  };
}
