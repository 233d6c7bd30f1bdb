/** The runner port: runs the commands of `bash`. Types only. */
import type { Workspace } from "../workspace.ts";

/** One command of an agent. */
export interface Command {
  readonly script: string;
  readonly workspace: Workspace;
  /** Starting directory, from an earlier outcome's `cwd`; absent: the workspace. */
  readonly cwd?: string;
  /** Time after which every process of the command is killed, ms. */
  readonly timeoutMs: number;
  /** Kills every process of the command when it aborts. */
  readonly signal: AbortSignal;
}

/** Why a command was killed. */
export type Killed = "timeout" | "output" | "stopped";

/** Result of a command. None of its processes is alive any more. */
export interface CommandOutcome {
  /** Output on its standard streams, bounded: the middle of a long output is left out. */
  readonly output: string;
  /** Absent if the command was killed. */
  readonly exitCode?: number;
  readonly killed?: Killed;
  /** Its last working directory, in the runner's own spelling; absent if the command did not report it. */
  readonly cwd?: string;
  /** Opened directories that were hidden from the command, and why. */
  readonly withheld: readonly string[];
  /** Network use; absent if the command had no network. */
  readonly network?: NetworkUse;
}

/** Network use of one command. */
export interface NetworkUse {
  readonly requests: number;
  /** Bytes of bodies and tunnels, in both directions. */
  readonly bytes: number;
  /** Refused hosts and ports, at most 10. */
  readonly refused: readonly string[];
}

/** Runs commands. `bubblewrap` and `runsc` confine them; `none` runs them with the worker's own rights. */
export interface Runner {
  readonly kind: "bubblewrap" | "runsc" | "none";
  /** Protections that must work before this runner is used, as words of the test in `choose.ts`. */
  readonly protections: readonly string[];
  /** The hosts that commands may reach, only over HTTP proxies; absent: no network. */
  readonly hosts?: readonly string[];
  /**
   * Runs one command and waits for the end of all its processes.
   *
   * @throws {ToolFailure} if it cannot be started.
   */
  run(command: Command): Promise<CommandOutcome>;
}
