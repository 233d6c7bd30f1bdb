/**
 * Chooses the tools of a run and performs one call.
 *
 * Owns the order of tools, the meaning of an allowlist, the time limit of a call, the form of its result. `tool.ts` defines
 * a tool; the loop decides which calls are made; permissions are checked before `runTool`.
 *
 * 1. The same tools and allowlist give the same list in the same order, so that prompt prefixes stay byte-identical.
 * 2. No spawning tool is ever resolved or run.
 * 3. `runTool` never rejects: every failure is an error result that says what to do.
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

/** The tools of a run, and the unknown names of its allowlist. */
export interface ResolvedTools {
  readonly tools: readonly Tool[];
  readonly unknown: readonly string[];
}

/** All tools of a worker. */
export interface Toolbox {
  /** Returns the tools in `allowlist`, or all: then the same list until there are more. Sorted by name, each once. */
  resolve(allowlist: readonly string[] | undefined): ResolvedTools;
}

const NO_TOOLS: readonly Tool[] = [];

/** A call requested by the model. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

/** The result for the model, and the duration of the call. */
export interface ToolOutcome {
  /** At most 50,000 code points; never empty. */
  readonly content: string;
  readonly isError: boolean;
  /** True if a hook blocked the call. */
  readonly isDenied?: boolean;
  readonly durationMs: number;
}

/** The caller of a tool. The signal of its call is created when the tool reads it. */
export type ToolCaller = Omit<ToolContext, "signal">;

/** Options of `runTool`. */
export interface RunToolOptions {
  /** The names offered to the model. */
  readonly offered: readonly string[];
  readonly clock: Clock;
  /** Measures the call's time; default: the clock. */
  readonly timers?: Pick<Clock, "timeout">;
  /** Stops with the run. */
  readonly stop: StopSignal;
  /** Called just before the tool runs; false: it does not run, because this worker has lost the run. Default: it runs. */
  readonly mayRun?: () => boolean;
}

/**
 * Collects a worker's tools.
 *
 * `more`: tools that become known later; they never replace one of `tools`. An allowlist may name all tools of an MCP server
 * by `mcp__<server>`.
 *
 * @throws {SubagentError} `invalid_tool` if two tools have the same name, or if one has the name of a spawning tool or an
 * input schema that the Messages API rejects.
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

/** Performs one call; `tool`: the tool of that name, if any. Failures become error results (invariant 3). */
export async function runTool(
  tool: Tool | undefined,
  call: ToolCall,
  caller: ToolCaller,
  options: RunToolOptions,
): Promise<ToolOutcome> {
  const startedMs = options.clock.monotonicMs();
  const { text, isError } = await answerTo(tool, call, caller, options);
  return {
    content: fitResult(withoutSecrets(withoutHostPath(text, caller))),
    isError,
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
const RUN_LOST = "Not started: this worker has lost the run.";

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

/** Resolves when the tool finishes, times out or the run stops, whichever is first; leaves behind a tool that goes on. */
function withinTime(
  tool: Tool,
  input: unknown,
  caller: ToolCaller,
  { stop, clock, timers = clock, mayRun }: RunToolOptions,
): Promise<ToolAnswer> {
  return new Promise((resolve) => {
    // A signal of this call only: it ends with the call's time limit, and listeners do not accumulate on the run's signal.
    const mine = new StopSignal();
    const end = (answer: ToolAnswer) => {
      limit.end();
      forget();
      resolve(answer);
    };
    const cutOff = (answer: ToolAnswer) => {
      end(answer);
      mine.stop();
    };
    const limit = new TimeLimit(() =>
      timers.timeout(tool.timeoutMs, () => cutOff(refused(tookTooLong(tool)))),
    );
    const forget = stop.onStop(() => cutOff(refused(CANCELLED)));
    const context = new CallContext(caller, { stop: mine, limit, timers, mayRun });
    void checkedRun(tool, input, context, { stop: mine, mayRun }).then(end);
  });
}

/** The time limit of a call. It starts again once the call has waited for its turn on the workspace. */
class TimeLimit {
  readonly #start: () => { cancel(): void };
  #timer: { cancel(): void } | undefined;
  #isOver = false;

  /** `start` starts the timer. */
  constructor(start: () => { cancel(): void }) {
    this.#start = start;
    this.begin();
  }

  begin(): void {
    this.pause();
    if (!this.#isOver) this.#timer = this.#start();
  }

  pause(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  end(): void {
    this.#isOver = true;
    this.pause();
  }
}

interface CallMeans extends Pick<RunToolOptions, "stop" | "mayRun"> {
  readonly limit: TimeLimit;
  readonly timers: Pick<Clock, "timeout">;
}

/** Creates signal and workspace when the tool reads them. A class, because a getter per object would cost a hidden class each. */
class CallContext implements ToolContext {
  readonly agentId: string;
  readonly uid: string;
  readonly run: number;
  readonly toolUseId: string;
  readonly tellParent: (text: string) => void;
  readonly #shared: Workspace;
  readonly #means: CallMeans;
  #workspace: Workspace | undefined;

  constructor({ agentId, uid, run, toolUseId, workspace, tellParent }: ToolCaller, means: CallMeans) {
    this.agentId = agentId;
    this.uid = uid;
    this.run = run;
    this.toolUseId = toolUseId;
    this.tellParent = tellParent;
    this.#shared = workspace;
    this.#means = means;
  }

  get workspace(): Workspace {
    this.#workspace ??= workspaceOfCall(this.#shared, this.#means);
    return this.#workspace;
  }

  get signal(): AbortSignal {
    return this.#means.stop.signal;
  }
}

/**
 * Returns the workspace for one call. Waiting for earlier calls uses none of its time; behind them the call may have been
 * stopped or the run lost, and then its work is not begun. A call that waits for its own work waits within its time.
 */
function workspaceOfCall(shared: Workspace, { limit, timers, stop, mayRun }: CallMeans): Workspace {
  let isAtWork = false;
  return {
    directory: shared.directory,
    get home() {
      return shared.home;
    },
    roots: shared.roots,
    hidden: shared.hidden,
    directoryFile: shared.directoryFile,
    exclusive(work) {
      if (!isAtWork) limit.pause();
      const mine = shared.exclusive(async () => {
        if (stop.isStopped) throw new ToolFailure(CANCELLED);
        if (mayRun?.() === false) throw new ToolFailure(RUN_LOST);
        limit.begin();
        isAtWork = true;
        try {
          return await untilLeft(Promise.resolve(work()), stop, timers);
        } finally {
          isAtWork = false;
        }
      });
      // A tool may not await it, and a rejection without a handler ends the process.
      mine.catch(() => undefined);
      return mine;
    },
  };
}

/** Time for which work on the workspace may go on after its call has ended, before the next one has its turn, ms. */
const LEFT_AFTER_MS = 30_000;

/** Settles as `work` does, or rejects {@link LEFT_AFTER_MS} after its call was stopped: work that hangs holds up no other. */
function untilLeft<Result>(
  work: Promise<Result>,
  stop: StopSignal,
  timers: Pick<Clock, "timeout">,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    let timer: { cancel(): void } | undefined;
    const forget = stop.onStop(() => {
      timer = timers.timeout(LEFT_AFTER_MS, () => reject(new ToolFailure(CANCELLED)));
    });
    const settle = () => {
      forget();
      timer?.cancel();
    };
    work.then(settle, settle);
    work.then(resolve, reject);
  });
}

/**
 * Checks the input and runs the tool. The check may also be slow: an input that it accepts too late is not run. Never
 * rejects: failures become text for the model.
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
    if (mayRun?.() === false) return refused(RUN_LOST);
    return { text: textOfResult(await tool.run(checked.input, ctx)), isError: false };
  } catch (error) {
    return refused(messageOf(tool, error));
  }
}

function tookTooLong(tool: Tool): string {
  const effect = tool.idempotent ? "" : " Its effect is unknown: check before you repeat it.";
  return `${tool.name} did not finish within ${tool.timeoutMs / 1000} s and was stopped.${effect} Try a smaller step.`;
}

/** Stands for the message of a thrown value that has none. */
const WITHOUT_MESSAGE = "something without a message was thrown.";

function messageOf(tool: Tool, error: unknown): string {
  const message = wordsOf(error);
  if (error instanceof ToolFailure) return message;
  const words = clip(withoutSecrets(message).trim(), MESSAGE_ECHO_CHARS) || WITHOUT_MESSAGE;
  const stop = /[.!?…]$/.test(words) ? "" : ".";
  return `${tool.name} failed: ${words}${stop} Check the input, or go on without this tool.`;
}

/** Returns the message of any thrown value, even of one whose conversion to a string throws. */
function wordsOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error);
  } catch {
    return WITHOUT_MESSAGE;
  }
}

function withoutHostPath(text: string, { workspace }: ToolCaller): string {
  return text.replaceAll(workspace.directory, ".");
}
