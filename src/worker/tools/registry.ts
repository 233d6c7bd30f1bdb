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
import { clip, fitResult, safeText } from "./result-text.ts";
import { type Tool, type ToolContent, type ToolContext, ToolDefinitionError, ToolFailure } from "./tool.ts";

/** The names a sub-agent never gets: there is no nesting. */
export const SPAWNING_TOOLS: readonly string[] = [
  "agent",
  "destroy_sub_agent",
  "list_sub_agents",
  "spawn_sub_agent",
  "task",
];

/** The tools of a run, and the names of its allowlist that no tool has. */
export interface ResolvedTools {
  readonly tools: Tool[];
  readonly unknown: string[];
}

/** All tools a worker has. */
export interface Toolbox {
  /** Given: exactly those, unknown names ignored and reported. Omitted: all. Sorted by name, each once. */
  resolve(allowlist: readonly string[] | undefined): ResolvedTools;
}

/** A call as the model asked for it. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

/** The result the model will read, with what the step list keeps of it. */
export interface ToolOutcome {
  /** At most 50,000 code points; never empty. */
  readonly content: string;
  readonly isError: boolean;
  readonly truncated: boolean;
  readonly durationMs: number;
}

/** What `runTool` needs besides the call: the names offered to the model, and a clock. */
export interface RunToolOptions {
  readonly offered: readonly string[];
  readonly clock: Clock;
}

/**
 * Gathers a worker's tools.
 *
 * @throws {ToolDefinitionError} when two tools have one name, or one has the name of a spawning tool.
 */
export function createToolbox(tools: readonly Tool[]): Toolbox {
  const byName = new Map<string, Tool>();
  for (const tool of tools) {
    if (SPAWNING_TOOLS.includes(tool.name)) {
      throw new ToolDefinitionError(`Tool name ${tool.name} is reserved: a sub-agent has no spawning tool.`);
    }
    if (byName.has(tool.name)) throw new ToolDefinitionError(`Two tools are named ${tool.name}.`);
    byName.set(tool.name, tool);
  }
  const names = [...byName.keys()].sort();
  return {
    resolve(allowlist) {
      const wanted = new Set(allowlist ?? names);
      return {
        tools: names.filter((name) => wanted.has(name)).flatMap((name) => byName.get(name) ?? []),
        unknown: [...wanted].filter((name) => !byName.has(name)).sort(),
      };
    },
  };
}

/** Performs one call. `tool` is what the call's name resolved to; see invariant 3 for what goes wrong. */
export async function runTool(
  tool: Tool | undefined,
  call: ToolCall,
  ctx: ToolContext,
  options: RunToolOptions,
): Promise<ToolOutcome> {
  const startedMs = options.clock.monotonicMs();
  const { text, isError } = await answerTo(tool, call, ctx, options);
  const fitted = fitResult(withoutHostPath(text, ctx));
  return {
    content: fitted.text,
    isError,
    truncated: fitted.truncated,
    durationMs: Math.max(0, options.clock.monotonicMs() - startedMs),
  };
}

interface Answer {
  readonly text: string;
  readonly isError: boolean;
}

const NAME_ECHO_CHARS = 100;
const MESSAGE_ECHO_CHARS = 2_000;
const CANCELLED = "Cancelled: the run was stopped before this call finished.";

function refused(text: string): Answer {
  return { text, isError: true };
}

async function answerTo(
  tool: Tool | undefined,
  call: ToolCall,
  ctx: ToolContext,
  { offered, clock }: RunToolOptions,
): Promise<Answer> {
  if (tool === undefined || !offered.includes(call.name)) return refused(notOffered(call.name, offered));
  if (ctx.signal.aborted) return refused(CANCELLED);
  try {
    return await withinTime(tool, call.input, ctx, clock);
  } catch (error) {
    return refused(messageOf(tool, error));
  }
}

function notOffered(name: string, offered: readonly string[]): string {
  const shown = JSON.stringify(clip(safeText(String(name)), NAME_ECHO_CHARS));
  const instead = offered.length === 0 ? "Answer without tools." : `Use one of: ${offered.join(", ")}.`;
  return SPAWNING_TOOLS.includes(name)
    ? `${shown} is not available: a sub-agent cannot start or manage other agents. Do the work yourself. ${instead}`
    : `There is no tool named ${shown}. ${instead}`;
}

/** Answers when the tool, its time or the run is over, whichever is first; a tool that goes on is not awaited. */
async function withinTime(tool: Tool, input: unknown, ctx: ToolContext, clock: Clock): Promise<Answer> {
  const expiry = new AbortController();
  // A derived signal per call: listeners never pile up on the run's own signal.
  const signal = AbortSignal.any([ctx.signal, expiry.signal]);
  const timer = clock.timeout(tool.timeoutMs, () => expiry.abort());
  let onAbort = (): void => {};
  const stopped = new Promise<Answer>((resolve) => {
    onAbort = () => resolve(refused(expiry.signal.aborted ? tookTooLong(tool) : CANCELLED));
    signal.addEventListener("abort", onAbort, { once: true });
  });
  try {
    return await Promise.race([stopped, checkedRun(tool, input, { ...ctx, signal })]);
  } finally {
    timer.cancel();
    signal.removeEventListener("abort", onAbort);
  }
}

/** A check may ask elsewhere and take its time, too; what it lets pass too late is not run. */
async function checkedRun(tool: Tool, input: unknown, ctx: ToolContext): Promise<Answer> {
  const checked = await tool.check(input);
  if (!checked.ok) {
    return refused(`Invalid input for ${tool.name}: ${checked.problem}. Correct it and call the tool again.`);
  }
  if (ctx.signal.aborted) return refused(CANCELLED);
  return { text: textOf(await tool.run(checked.input, ctx)), isError: false };
}

function tookTooLong(tool: Tool): string {
  const effect = tool.idempotent ? "" : " Its effect is unknown: check before you repeat it.";
  return `${tool.name} did not finish within ${tool.timeoutMs / 1000} s and was stopped.${effect} Try a smaller step.`;
}

function messageOf(tool: Tool, error: unknown): string {
  if (error instanceof ToolFailure) return error.message;
  const message = wordsOf(error);
  return `${tool.name} failed: ${clip(message, MESSAGE_ECHO_CHARS)} Check the input, or go on without this tool.`;
}

/** Anything can be thrown, also what has no words or raises an error of its own when it is asked for them. */
function wordsOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error);
  } catch {
    return "something without a message was thrown.";
  }
}

function textOf(result: string | ToolContent[]): string {
  if (typeof result === "string") return result;
  return Array.isArray(result) ? result.map((block) => block.text).join("\n") : "";
}

function withoutHostPath(text: string, ctx: ToolContext): string {
  return text.replaceAll(ctx.workspace.directory, ".");
}
