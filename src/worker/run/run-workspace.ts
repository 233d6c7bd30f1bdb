/** The workspace of a run, made when a tool first needs it: an agent that touches no file leaves no directory behind. */
import { ToolFailure } from "../tools/tool.ts";
import { type OpenWorkspaceOptions, openWorkspace, type Workspace } from "../tools/workspace.ts";

/** See the module's header. */
export interface RunWorkspace {
  /** Makes it, once. Rejects when the disk refuses. */
  open(): Promise<Workspace>;
  /** The workspace, once it has been made. */
  readonly opened: Workspace | undefined;
  /** Whether earlier files turned out not to be on this machine. */
  readonly areFilesGone: boolean;
}

/** The workspace that `options` name. */
export function runWorkspace(options: OpenWorkspaceOptions): RunWorkspace {
  let opening: Promise<Workspace> | undefined;
  let opened: Workspace | undefined;
  let areFilesGone = false;
  return {
    get opened() {
      return opened;
    },
    get areFilesGone() {
      return areFilesGone;
    },
    open() {
      opening ??= openWorkspace(options).then(({ workspace, state }) => {
        opened = workspace;
        areFilesGone = state === "missing_stamp";
        return workspace;
      });
      return opening;
    },
  };
}

/** What a tool that uses no workspace is handed in its place; nothing that it writes contains the directory's name. */
export const NO_WORKSPACE: Workspace = {
  directory: "\0no workspace\0",
  get home(): never {
    throw new ToolFailure("This tool was defined without the use of a workspace.");
  },
  roots: [],
  hidden: "\0no workspace\0",
  exclusive: (work) => work(),
};
