/** What a hook is: code of the operator that a worker calls around each tool call and each run of a sub-agent. */
/** The sub-agent that a hook is called for. */
export interface HookedAgent {
  tenant: string;
  parentId: string;
  agentId: string;
  uid: string;
  name: string;
  /** The activation of the agent, counted from 1. */
  run: number;
  /** The agent definition it was made from. */
  definition?: string | undefined;
}

/**
 * A tool call, built-in, custom, skill or MCP alike. `input`: as the model gave it, or as hooks before this one changed it; a
 * copy, of which nothing is read back.
 */
export interface HookedCall {
  agent: HookedAgent;
  toolUseId: string;
  tool: string;
  input: unknown;
}

/** What a hook says; nothing lets things go on. `block`: it does not happen, and why. `context`: told to the model with the result. */
export interface HookVerdict {
  block?: string;
  context?: string;
}

/** What a hook says before a call. `input`: takes the place of the model's; it is checked and permitted anew. */
export interface PreToolUseVerdict extends HookVerdict {
  input?: Record<string, unknown>;
}

/** What a hook says after a call. `content`: takes the place of the result's text. */
export interface PostToolUseVerdict extends HookVerdict {
  content?: string;
}

/** What a function of a hook answers. */
export type HookAnswer<Verdict> = Promise<Verdict | undefined> | Verdict | undefined;

/**
 * A hook. Each function is awaited; one that throws, or takes longer than `timeoutMs`, blocks what it was asked about. Its signal
 * aborts when that time is over, or when its run is stopped: no run waits for a hook then. A run that another worker goes on with
 * calls a function again if the first worker's answer was not committed.
 */
export interface Hook {
  /** By which profiles, definitions and spawns name it; 1 to 64 characters of `A-Za-z0-9._-`. */
  readonly name: string;
  /** Whether it holds for every agent of the worker (default), or only for those that name it. */
  readonly everyAgent?: boolean;
  /** Default 10,000 ms. */
  readonly timeoutMs?: number;
  /** Before a call begins, and after the permission rules have let it through. */
  preToolUse?(call: HookedCall, signal: AbortSignal): HookAnswer<PreToolUseVerdict>;
  /** After a call; what it blocks, the model does not read, though it has happened. */
  postToolUse?(
    call: HookedCall & { content: string; isError: boolean },
    signal: AbortSignal,
  ): HookAnswer<PostToolUseVerdict>;
  /** Before a run's first model call. Blocked: the run ends `failed / model_error`. `context`: told to the model at once. */
  subagentStart?(
    agent: HookedAgent & { messages: readonly string[] },
    signal: AbortSignal,
  ): HookAnswer<HookVerdict>;
  /** Before a run's reply goes out. Blocked: the run ends `failed / model_error`. */
  subagentStop?(
    agent: HookedAgent & { status: string; stopReason: string; summary: string },
    signal: AbortSignal,
  ): HookAnswer<HookVerdict>;
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const LONGEST_TIMEOUT_MS = 600_000;

/** What is wrong with these hooks: a name or a timeout that is none, or one name twice. */
export function hookProblems(hooks: readonly Hook[]): string[] {
  const names = hooks.map(({ name }) => name);
  const problems = hooks.flatMap(({ name, timeoutMs = 1 }) => [
    ...(NAME.test(name)
      ? []
      : [`hook ${JSON.stringify(name)} needs a name of 1 to 64 characters of A-Za-z0-9._-`]),
    ...(names.filter((each) => each === name).length > 1 ? [`two hooks are named ${name}`] : []),
    ...(timeoutMs > 0 && timeoutMs <= LONGEST_TIMEOUT_MS
      ? []
      : [`the timeout of hook ${name} must be 1 to ${LONGEST_TIMEOUT_MS} ms`]),
  ]);
  return [...new Set(problems)];
}
