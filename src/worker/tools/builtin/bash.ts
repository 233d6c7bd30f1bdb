/** `bash`: runs a command of the model in a runner's sandbox. The SDK's own bash tool is deliberately unsandboxed. */
import { readFile, writeFile } from "node:fs/promises";
import { z } from "zod";
import { type Clock, systemClock } from "../../../shared/clock.ts";
import { SubagentError, ToolFailure } from "../../../shared/errors.ts";
import { clip } from "../../../shared/protocol/text.ts";
import {
  countHoldings,
  exceeds,
  forgetHoldings,
  freeBytes,
  holdingsOf,
  leastFree,
  overfills,
} from "../files/quota.ts";
import type { CommandOutcome, NetworkUse, Runner } from "../sandbox/runner.ts";
import { defineTool, type Tool, type ToolContext } from "../tool.ts";
import type { Area, Workspace } from "../workspace.ts";

const DEFAULT_TIMEOUT_S = 120;
const LONGEST_TIMEOUT_S = 600;
/** The tool's limit is above the command's, so that a command that times out still shows its output. */
const TOOL_LIMIT_MS = (LONGEST_TIMEOUT_S + 30) * 1_000;
const MAX_COMMAND_CHARS = 100_000;
/** Longest notes about withheld directories: a result must have room for the notes behind them. */
const MAX_WITHHELD_CHARS = 1_500;

function descriptionOf({ hosts }: Runner): string {
  const network =
    hosts === undefined
      ? "There is no network"
      : `Of the network you reach ${hosts.join(", ")}, by programs that use the proxy of the environment (curl, git, npm, pip)`;
  return (
    "Run a bash command in your workspace. The working directory carries over to your next command; variables, background " +
    `processes and everything else end with it. ${network}, and the system and opened directories are read-only.`
  );
}

/** Receives the network use of a command, for the worker's log. */
export type NetworkLog = (use: NetworkUse, caller: Pick<ToolContext, "agentId" | "uid" | "run">) => void;

/**
 * Creates the tool. Commands run one after another; each ends with all its processes.
 *
 * @throws {SubagentError} `invalid_tool` without a runner: `chooseRunner` gives none where no sandbox can run.
 */
export function bashTool(runner: Runner, clock: Clock = systemClock, log?: NetworkLog): Tool {
  if (typeof runner?.run !== "function")
    throw new SubagentError(
      "invalid_tool",
      "bash needs a runner: chooseRunner gives one, or says in its sentence why there is none; leave bash out then.",
    );
  const directories = new WeakMap<Area, string>();
  const directoryOf = async (workspace: Workspace) =>
    directories.get(workspace.home) ?? (await keptDirectory(workspace));
  return defineTool({
    name: "bash",
    description: descriptionOf(runner),
    input: z.object({
      command: z.string().min(1).max(MAX_COMMAND_CHARS).describe("The command, as for bash -c"),
      timeout_seconds: z
        .int()
        .min(1)
        .max(LONGEST_TIMEOUT_S)
        .optional()
        .describe(`The command is killed after this time; default ${DEFAULT_TIMEOUT_S}`),
    }),
    timeoutMs: TOOL_LIMIT_MS,
    async run({ command, timeout_seconds = DEFAULT_TIMEOUT_S }, ctx) {
      const { workspace, signal } = ctx;
      if (command.includes("\0")) throw new ToolFailure("The command contains a NUL character.");
      return workspace.exclusive(async () => {
        if (signal.aborted) throw new ToolFailure("Cancelled before the command was started.");
        const timeoutMs = timeout_seconds * 1_000;
        const cwd = await directoryOf(workspace);
        const watch = await watchHoldings(workspace, signal, clock);
        const script = watch.wasFull ? `${WRITE_NOTHING}; ${command}` : command;
        let outcome: CommandOutcome;
        try {
          outcome = await runner.run({ script, workspace, cwd, timeoutMs, signal: watch.signal });
        } finally {
          watch.stop();
        }
        if (outcome.network?.requests) log?.(outcome.network, ctx);
        if (outcome.cwd !== undefined) {
          directories.set(workspace.home, outcome.cwd);
          if (outcome.cwd !== cwd) await keepDirectory(workspace, outcome.cwd);
        }
        const whyFull = await watch.whyFull(outcome.killed === undefined);
        const text = textOf(outcome, timeout_seconds, { whyFull, wasFull: watch.wasFull });
        if (outcome.exitCode !== 0 || whyFull !== undefined) throw new ToolFailure(text);
        return text;
      });
    },
  });
}

const FILE_MODE = 0o600;

/** Reads where the agent's last command ended, perhaps under another worker; undefined: nowhere, or it is not known. */
async function keptDirectory({ directoryFile }: Workspace): Promise<string | undefined> {
  const kept = directoryFile && (await readFile(directoryFile, "utf8").catch(() => ""));
  return kept || undefined;
}

/** Keeps a directory for the run's next worker and the agent's next run. If the disk refuses, they begin in the workspace. */
async function keepDirectory({ directoryFile }: Workspace, cwd: string): Promise<void> {
  if (directoryFile !== undefined)
    await writeFile(directoryFile, cwd, { mode: FILE_MODE }).catch(() => undefined);
}

function textOf(
  { output, exitCode, killed, withheld, network }: CommandOutcome,
  timeoutS: number,
  { whyFull, wasFull }: { readonly whyFull: string | undefined; readonly wasFull: boolean },
): string {
  const hidden = withheld.map((directory) => `[not shown to commands: ${directory}]`);
  const notes = hidden.length > 0 ? [clip(hidden.join("\n"), MAX_WITHHELD_CHARS)] : [];
  if (network?.refused.length) notes.push(`[not reached: ${network.refused.join(", ")}]`);
  if (killed === "timeout") notes.push(`[killed with all its processes after ${timeoutS} s]`);
  else if (killed === "stopped" && whyFull !== undefined) notes.push(`[killed: ${whyFull}]`);
  else if (killed === "output")
    notes.push("[killed: it wrote more than 64 MB, or more than 8 KB to descriptor 3]");
  else if (killed === "stopped") notes.push("[killed: the run was stopped, or the command ran into a limit]");
  else if (exitCode !== 0) notes.push(`[exit code ${exitCode}]`);
  const problem = whyFull ?? (wasFull && exitCode !== 0 ? WAS_FULL : undefined);
  if (killed === undefined && problem !== undefined) notes.push(`[${problem}]`);
  return [output.trimEnd(), ...notes].filter((part) => part !== "").join("\n");
}

/** Shell code after which a command deletes, but writes no file: the limit cannot be raised again. The write fails, not its program. */
const WRITE_NOTHING = "trap '' XFSZ; ulimit -f 0";

/**
 * Time to the first measurement of a command's disk or workspace, ms. It doubles up to the longest; after a measurement that
 * took longer it is as long as that.
 */
const FIRST_MEASURE_MS = 100;
const MEASURE_EVERY_MS = 1_000;

const WORKSPACE_FULL = "your workspace is full; delete something first";
const WAS_FULL =
  "your workspace was full: this command could write no file. Delete with one command, write with the next";
const DISK_FULL = "the disk is nearly full; write less, or delete something first";
const UNWATCHED = "its use of the disk cannot be watched; try again";

/**
 * Stops a command that fills its workspace beyond the quota, or the disk: a file that was deleted while it is open takes room
 * that no count sees. If the workspace is full already (`wasFull`), only a command that adds to it is stopped, so that it can be
 * emptied. A last count follows its end, because a short one ends before the first.
 */
async function watchHoldings(workspace: Workspace, signal: AbortSignal, clock: Clock) {
  const full = new AbortController();
  const over = new AbortController();
  const before = await holdingsOf(workspace);
  const leastFreeBytes = leastFree(await freeBytes(workspace));
  const watch = async (isFull: () => Promise<boolean>, why: string): Promise<void> => {
    let [tookMs, pauseMs] = [0, FIRST_MEASURE_MS];
    while (!over.signal.aborted) {
      await clock.sleep(Math.max(pauseMs, tookMs), over.signal);
      if (over.signal.aborted) return;
      const beganMs = clock.monotonicMs();
      if (await isFull()) full.abort(why);
      tookMs = clock.monotonicMs() - beganMs;
      pauseMs = Math.min(2 * pauseMs, MEASURE_EVERY_MS);
    }
  };
  const watches = [
    watch(async () => (await freeBytes(workspace)) < leastFreeBytes, DISK_FULL),
    watch(async () => overfills(before, await countHoldings(workspace)), WORKSPACE_FULL),
  ];
  Promise.all(watches).catch(() => full.abort(UNWATCHED));
  return {
    signal: AbortSignal.any([signal, full.signal]),
    wasFull: exceeds(before),
    /** A command that `ran` to its end is none to try again, so what could not be measured is no problem of it. */
    async whyFull(ran: boolean): Promise<string | undefined> {
      const why = full.signal.aborted ? String(full.signal.reason) : undefined;
      if (why !== undefined && !(ran && why === UNWATCHED)) return why;
      const now = await holdingsOf(workspace).catch(() => undefined);
      if (now && overfills(before, now)) return exceeds(before) ? WAS_FULL : WORKSPACE_FULL;
      return undefined;
    },
    stop() {
      over.abort();
      forgetHoldings(workspace);
    },
  };
}
