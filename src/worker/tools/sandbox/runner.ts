/** The runner port: how the commands of `bash` are run. Types only. */
import type { Workspace } from "../workspace.ts";

/** One command of an agent. */
export interface Command {
  readonly script: string;
  readonly workspace: Workspace;
  /** Where it starts, as an earlier outcome answered it; absent: the workspace. */
  readonly cwd?: string;
  /** After this many ms every process of the command is killed. */
  readonly timeoutMs: number;
  /** Kills every process of the command when it aborts. */
  readonly signal: AbortSignal;
}

/** Why a command was killed. */
export type Killed = "timeout" | "output" | "stopped";

/** What a command did. No process of it lives any more. */
export interface CommandOutcome {
  /** What it wrote to its standard streams, bounded: the middle of a long output is left out. */
  readonly output: string;
  /** Absent when it was killed. */
  readonly exitCode?: number;
  readonly killed?: Killed;
  /** Where it ended, in the runner's own spelling; absent when it did not say. */
  readonly cwd?: string;
  /** Opened directories that the command could not see, and why. */
  readonly withheld: readonly string[];
  /** What it did with the network; absent where there is none. */
  readonly network?: NetworkUse;
}

/** What one command did with the network. */
export interface NetworkUse {
  readonly requests: number;
  /** Of bodies and tunnels, both ways. */
  readonly bytes: number;
  /** Hosts and ports it asked for and did not get, at most 10. */
  readonly refused: readonly string[];
}

/** Runs commands. `bubblewrap` and `runsc` confine them; `none` runs them with the worker's own rights. */
export interface Runner {
  readonly kind: "bubblewrap" | "runsc" | "none";
  /** What must stand around a command before this runner is used, as words of the proof in `choose.ts`. */
  readonly walls: readonly string[];
  /** The hosts that commands may reach, over HTTP proxies alone; absent: no network. */
  readonly hosts?: readonly string[];
  /**
   * Runs one command and waits for the end of all its processes.
   *
   * @throws {ToolFailure} when it cannot be started.
   */
  run(command: Command): Promise<CommandOutcome>;
}
