/**
 * Chooses the tools of a run and performs one call.
 *
 * Owns: the order of tools, what an allowlist means, the time limit of a call, the shape of its result.
 * Neighbours: `tool.ts` owns what a tool is; the loop owns which calls are made; permissions come before `runTool`.
 *
 * 1. The same tools and allowlist give the same list in the same order, so that prompt prefixes stay byte-identical.
 * 2. No spawning tool is ever resolved or run.
 * 3. `runTool` never rejects: everything that can go wrong is an error result that says what to do.
 */
import type { Clock } from "../../shared/clock.ts";
import { SubagentError, ToolFailure } from "../../shared/errors.ts";
import { SPAWNING_TOOLS } from "../../shared/protocol/permissions.ts";
import { clip, quoted } from "../../shared/protocol/text.ts";
import { withoutSecrets } from "../../shared/secrets.ts";
import { StopSignal } from "../../shared/stop-signal.ts";
import { fitResult, safeText, textOfResult } from "./result-text.ts";
import { schemaProblem, type Tool, type ToolContext } from "./tool.ts";
import type { Workspace } from "./workspace.ts";

/** The tools of a run, and the names of its allowlist that no tool has. */
export interface ResolvedTools {
  readonly tools: readonly Tool[];
  readonly unknown: readonly string[];
}

/** All tools a worker has. */
export interface Toolbox {
  /** Given: exactly those, unknown names ignored and reported. Omitted: all; the same list until there are more. Sorted by name, each once. */
  resolve(allowlist: readonly string[] | undefined): ResolvedTools;
}

const NO_TOOLS: readonly Tool[] = [];

/** A call as the model asked for it. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

/** The result the model will read, and how long the tool took. */
export interface ToolOutcome {
  /** At most 50,000 code points; never empty. */
  readonly content: string;
  readonly isError: boolean;
  /** A hook kept the call from being made. */
  readonly isDenied?: boolean;
  readonly truncated: boolean;
  readonly durationMs: number;
}

/** Who calls a tool; the signal of its call is made when the tool asks for it. */
export type ToolCaller = Omit<ToolContext, "signal">;

/** What `runTool` needs besides the call. */
export interface RunToolOptions {
  /** The names offered to the model. */
  readonly offered: readonly string[];
  readonly clock: Clock;
  /** What measures the call's time; default: the clock. */
  readonly timers?: Pick<Clock, "timeout">;
  /** Stops with the run. */
  readonly stop: StopSignal;
  /** Asked just before the tool runs; false: it does not, for the run is another worker's by now. Default: it may. */
  readonly mayRun?: () => boolean;
}

/**
 * Gathers a worker's tools.
 *
 * `more`: tools that become known later; they never replace one of `tools`. An allowlist may name all tools of an MCP server
 * by `mcp__<server>`.
 *
 * @throws {SubagentError} `invalid_tool` when two tools have one name, or one has the name of a spawning tool or an input schema that the
 *   Messages API refuses.
 */
export function createToolbox(tools: readonly Tool[], more: () => readonly Tool[] = () => NO_TOOLS): Toolbox {
  const byName = new Map<string, Tool>();
  for (const tool of tools) {
    if (SPAWNING_TOOLS.includes(tool.name)) {
      throw new SubagentError(
        "invalid_tool",
        `Tool name ${tool.name} is reserved: a sub-agent has no spawning tool.`,
      );
    }
    if (byName.has(tool.name)) throw new SubagentError("invalid_tool", `Two tools are named ${tool.name}.`);
    const problem = schemaProblem(tool.inputSchema);
    if (problem !== undefined) throw new SubagentError("invalid_tool", `Tool ${tool.name}: ${problem}.`);
    byName.set(tool.name, tool);
  }
  let added: readonly Tool[] | undefined;
  let all: readonly Tool[] = [];
  let names: ReadonlySet<string> = new Set();
  const bringIn = (more: readonly Tool[]) => {
    added = more;
    all = [...byName.values(), ...more.filter(({ name }) => !byName.has(name))].sort(byItsName);
    names = new Set(all.flatMap(({ name, server = name }) => [name, server]));
  };
  return {
    resolve(allowlist) {
      const now = more();
      if (now !== added) bringIn(now);
      if (!allowlist) return { tools: all, unknown: [] };
      const wanted = new Set(allowlist);
      return {
        tools: all.filter(({ name, server = name }) => wanted.has(name) || wanted.has(server)),
        unknown: [...wanted].filter((name) => !names.has(name)).sort(),
      };
    },
  };
}

function byItsName(one: Tool, other: Tool): number {
  return one.name < other.name ? -1 : 1;
}

/** Performs one call. `tool` is what the call's name resolved to; see invariant 3 for what goes wrong. */
export async function runTool(
  tool: Tool | undefined,
  call: ToolCall,
  caller: ToolCaller,
  options: RunToolOptions,
): Promise<ToolOutcome> {
  const startedMs = options.clock.monotonicMs();
  const { text, isError } = await answerTo(tool, call, caller, options);
  const fitted = fitResult(withoutSecrets(withoutHostPath(text, caller)));
  return {
    content: fitted.text,
    isError,
    truncated: fitted.truncated,
    durationMs: Math.max(0, options.clock.monotonicMs() - startedMs),
  };
}

interface ToolAnswer {
  readonly text: string;
  readonly isError: boolean;
}

const NAME_ECHO_CHARS = 100;
const MESSAGE_ECHO_CHARS = 2_000;
const CANCELLED = "Cancelled: the run was stopped before this call finished.";
const ANOTHERS = "Not started: the run is another worker's by now.";

function refused(text: string): ToolAnswer {
  return { text, isError: true };
}

function answerTo(
  tool: Tool | undefined,
  call: ToolCall,
  caller: ToolCaller,
  options: RunToolOptions,
): ToolAnswer | Promise<ToolAnswer> {
  const { offered, stop } = options;
  if (tool === undefined || !offered.includes(call.name)) return refused(notOffered(call.name, offered));
  return stop.isStopped ? refused(CANCELLED) : withinTime(tool, call.input, caller, options);
}

function notOffered(name: string, offered: readonly string[]): string {
  const shown = quoted(safeText(String(name)), NAME_ECHO_CHARS);
  const instead = offered.length === 0 ? "Answer without tools." : `Use one of: ${offered.join(", ")}.`;
  return SPAWNING_TOOLS.includes(name)
    ? `${shown} is not available: a sub-agent cannot start or manage other agents. Do the work yourself. ${instead}`
    : `There is no tool named ${shown}. ${instead}`;
}

/** Answers when the tool, its time or the run is over, whichever is first; a tool that goes on is not awaited. */
function withinTime(
  tool: Tool,
  input: unknown,
  caller: ToolCaller,
  { stop, clock, timers = clock, mayRun }: RunToolOptions,
): Promise<ToolAnswer> {
  return new Promise((resolve) => {
    // Of this call alone: it ends with its own time, and listeners never pile up on the run's.
    const mine = new StopSignal();
    const end = (answer: ToolAnswer) => {
      timer.cancel();
      forget();
      resolve(answer);
    };
    const cutOff = (answer: ToolAnswer) => {
      end(answer);
      mine.stop();
    };
    const timer = timers.timeout(tool.timeoutMs, () => cutOff(refused(tookTooLong(tool))));
    const forget = stop.onStop(() => cutOff(refused(CANCELLED)));
    void checkedRun(tool, input, new CallContext(caller, mine), { stop: mine, mayRun }).then(end);
  });
}

/** The signal is made when the tool asks for it; a getter of its own in every object would cost each its hidden class. */
class CallContext implements ToolContext {
  readonly agentId: string;
  readonly uid: string;
  readonly run: number;
  readonly toolUseId: string;
  readonly workspace: Workspace;
  readonly tellParent: (text: string) => void;
  readonly #stop: StopSignal;

  constructor({ agentId, uid, run, toolUseId, workspace, tellParent }: ToolCaller, stop: StopSignal) {
    this.agentId = agentId;
    this.uid = uid;
    this.run = run;
    this.toolUseId = toolUseId;
    this.workspace = workspace;
    this.tellParent = tellParent;
    this.#stop = stop;
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }
}

/**
 * A check may ask elsewhere and take its time, too; what it lets pass too late is not run. Never rejects: what goes wrong is
 * told to the model.
 */
async function checkedRun(
  tool: Tool,
  input: unknown,
  ctx: ToolContext,
  { stop, mayRun }: Pick<RunToolOptions, "stop" | "mayRun">,
): Promise<ToolAnswer> {
  try {
    const checked = await tool.check(input);
    if (!checked.ok) {
      return refused(
        `Invalid input for ${tool.name}: ${checked.problem}. Correct it and call the tool again.`,
      );
    }
    if (stop.isStopped) return refused(CANCELLED);
    if (mayRun?.() === false) return refused(ANOTHERS);
    return { text: textOfResult(await tool.run(checked.input, ctx)), isError: false };
  } catch (error) {
    return refused(messageOf(tool, error));
  }
}

function tookTooLong(tool: Tool): string {
  const effect = tool.idempotent ? "" : " Its effect is unknown: check before you repeat it.";
  return `${tool.name} did not finish within ${tool.timeoutMs / 1000} s and was stopped.${effect} Try a smaller step.`;
}

function messageOf(tool: Tool, error: unknown): string {
  const message = wordsOf(error);
  if (error instanceof ToolFailure) return message;
  return `${tool.name} failed: ${clip(withoutSecrets(message), MESSAGE_ECHO_CHARS)} Check the input, or go on without this tool.`;
}

/** Anything can be thrown, also what has no words or raises an error of its own when it is asked for them. */
function wordsOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error);
  } catch {
    return "something without a message was thrown.";
  }
}

function withoutHostPath(text: string, { workspace }: ToolCaller): string {
  return text.replaceAll(workspace.directory, ".");
}
