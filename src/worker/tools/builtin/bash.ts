/** `bash`: runs a command of the model in a runner's sandbox. The SDK's own bash tool is deliberately unsandboxed. */
import { z } from "zod";
import { type Clock, systemClock } from "../../../shared/clock.ts";
import { SubagentError, ToolFailure } from "../../../shared/errors.ts";
import { countHoldings, forgetHoldings, freeBytes, leastFree, overfills } from "../files/quota.ts";
import type { CommandOutcome, NetworkUse, Runner } from "../sandbox/runner.ts";
import { defineTool, type Tool, type ToolContext } from "../tool.ts";
import type { Area, Workspace } from "../workspace.ts";

const DEFAULT_TIMEOUT_S = 120;
const LONGEST_TIMEOUT_S = 600;
/** The tool's limit is above the command's, so that a command that times out still shows its output. */
const TOOL_LIMIT_MS = (LONGEST_TIMEOUT_S + 30) * 1_000;
const MAX_COMMAND_CHARS = 100_000;

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
        const cwd = directories.get(workspace.home);
        const watch = await watchHoldings(workspace, signal, clock);
        const outcome = await runner
          .run({ script: command, workspace, cwd, timeoutMs, signal: watch.signal })
          .finally(watch.stop);
        if (outcome.network?.requests) log?.(outcome.network, ctx);
        if (outcome.cwd !== undefined) directories.set(workspace.home, outcome.cwd);
        const text = textOf(outcome, timeout_seconds, watch.whyFull());
        if (outcome.exitCode !== 0) throw new ToolFailure(text);
        return text;
      });
    },
  });
}

function textOf(
  { output, exitCode, killed, withheld, network }: CommandOutcome,
  timeoutS: number,
  whyFull: string | undefined,
): string {
  const notes = withheld.map((directory) => `[not shown to commands: ${directory}]`);
  if (network?.refused.length) notes.push(`[not reached: ${network.refused.join(", ")}]`);
  if (killed === "timeout") notes.push(`[killed with all its processes after ${timeoutS} s]`);
  else if (whyFull !== undefined) notes.push(`[killed: ${whyFull}]`);
  else if (killed === "output")
    notes.push("[killed: it wrote more than 64 MB, or more than 8 KB to descriptor 3]");
  else if (killed === "stopped") notes.push("[killed: the run was stopped, or the command ran into a limit]");
  else if (exitCode !== 0) notes.push(`[exit code ${exitCode}]`);
  return [output.trimEnd(), ...notes].filter((part) => part !== "").join("\n");
}

/** Shortest time between two measurements of a command's disk or workspace; after a longer one it is as long as that took. */
const MEASURE_EVERY_MS = 1_000;

const WORKSPACE_FULL = "your workspace is full; delete something first";
const DISK_FULL = "the disk is nearly full; write less, or delete something first";
const UNWATCHED = "its use of the disk cannot be watched; try again";

/**
 * Stops a command that fills its workspace beyond the quota, or the disk: a file that was deleted while it is open takes room
 * that no count sees. If the workspace is full already, only a command that adds to it is stopped, so that it can be emptied.
 */
async function watchHoldings(workspace: Workspace, signal: AbortSignal, clock: Clock) {
  const full = new AbortController();
  const over = new AbortController();
  const before = await countHoldings(workspace);
  const leastFreeBytes = leastFree(await freeBytes(workspace));
  const watch = async (isFull: () => Promise<boolean>, why: string): Promise<void> => {
    for (let tookMs = 0; !over.signal.aborted; ) {
      await clock.sleep(Math.max(MEASURE_EVERY_MS, tookMs), over.signal);
      const beganMs = clock.monotonicMs();
      if (await isFull()) full.abort(why);
      tookMs = clock.monotonicMs() - beganMs;
    }
  };
  const watches = [
    watch(async () => (await freeBytes(workspace)) < leastFreeBytes, DISK_FULL),
    watch(async () => overfills(before, await countHoldings(workspace)), WORKSPACE_FULL),
  ];
  Promise.all(watches).catch(() => full.abort(UNWATCHED));
  return {
    signal: AbortSignal.any([signal, full.signal]),
    whyFull: (): string | undefined => (full.signal.aborted ? String(full.signal.reason) : undefined),
    stop() {
      over.abort();
      forgetHoldings(workspace);
    },
  };
}
