/**
 * Hooks: code of the operator that a worker calls around each tool call and each run of a sub-agent; what they are, and those of
 * one agent at work.
 *
 * 1. Everything fails closed: a hook that throws, answers nonsense or takes too long blocks, and so does one that the agent
 *    names and the worker lacks.
 * 2. Hooks run in the order in which the worker was given them; the first that blocks is the last that is asked.
 * 3. An input that a hook changed passes the permission rules again; what needs the parent's word then is refused. Each hook is
 *    given a copy: only what it answers changes anything.
 * 4. What a hook says to the model is without secrets; an input that it gives to a tool may hold them.
 * 5. A run that is stopped waits for no hook: what it is asked about is blocked, and its signal aborts.
 */
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../shared/clock.ts";
import { messageOf } from "../../shared/errors.ts";
import { type PermissionRules, permissionFor } from "../../shared/protocol/permissions.ts";
import { clip } from "../../shared/protocol/text.ts";
import { withoutSecrets } from "../../shared/secrets.ts";
import type { StopSignal } from "../../shared/stop-signal.ts";
import type { ToolOutcome } from "../tools/registry.ts";
import { fitResult } from "../tools/result-text.ts";

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
const FUNCTIONS = ["preToolUse", "postToolUse", "subagentStart", "subagentStop"] as const;

/**
 * What is wrong with these hooks: a name, a timeout or a function that is none, or one name twice. A hook without any function
 * has a misspelt one: it would never be asked, and what it is to block would happen.
 */
export function hookProblems(hooks: readonly Hook[]): string[] {
  const names = hooks.map(({ name }) => name);
  const problems = hooks.flatMap((hook) => [
    ...formProblems(hook),
    ...functionProblems(hook),
    ...(names.filter((each) => each === hook.name).length > 1 ? [`two hooks are named ${hook.name}`] : []),
  ]);
  return [...new Set(problems)];
}

function formProblems({ name, timeoutMs = 1 }: Hook): string[] {
  return [
    ...(typeof name === "string" && NAME.test(name)
      ? []
      : [`hook ${JSON.stringify(name)} needs a name of 1 to 64 characters of A-Za-z0-9._-`]),
    ...(timeoutMs > 0 && timeoutMs <= LONGEST_TIMEOUT_MS
      ? []
      : [`the timeout of hook ${name} must be 1 to ${LONGEST_TIMEOUT_MS} ms`]),
  ];
}

function functionProblems(hook: Hook): string[] {
  const given = FUNCTIONS.filter((name) => hook[name] !== undefined);
  if (given.length === 0) return [`hook ${hook.name} needs one of the functions ${FUNCTIONS.join(", ")}`];
  return given
    .filter((name) => typeof hook[name] !== "function")
    .map((name) => `${name} of hook ${hook.name} must be a function`);
}

const TIMEOUT_MS = 10_000;
const WORDS_MAX_CHARS = 10_000;
const STOPPED = "the run was stopped";

/** A call as the loop planned it. */
interface Call {
  id: string;
  name: string;
  input: unknown;
}

/** What is known of the agent when its hooks are chosen. */
export interface AgentHooksOptions {
  agent: HookedAgent;
  /** Names of its specification. */
  named: readonly string[];
  permissions: readonly PermissionRules[];
  clock: Clock;
}

/** The hooks that hold for an agent; undefined where there are none. */
export function hooksOf(hooks: readonly Hook[], options: AgentHooksOptions): AgentHooks | undefined {
  const held = hooks.filter(({ name, everyAgent = true }) => everyAgent || options.named.includes(name));
  const missing = options.named.filter((name) => !hooks.some((hook) => hook.name === name));
  return held.length + missing.length === 0 ? undefined : new AgentHooks(held, missing, options);
}

/** See the module's header. */
export class AgentHooks {
  readonly #hooks: readonly Hook[];
  readonly #missing: readonly string[];
  readonly #options: AgentHooksOptions;
  #isStopRefused = false;

  constructor(hooks: readonly Hook[], missing: readonly string[], options: AgentHooksOptions) {
    this.#hooks = hooks;
    this.#missing = missing;
    this.#options = options;
  }

  /** Performs a call between its hooks; `stop`: ends what the call is waiting for. */
  async around(
    call: Call,
    perform: (input: unknown) => Promise<ToolOutcome>,
    stop: StopSignal,
  ): Promise<ToolOutcome> {
    const before = await this.#before(call, stop);
    if (before.block !== undefined) return refusedOutcome(before.block);
    const outcome = await perform(before.input);
    return this.#after({ ...call, input: before.input }, outcome, { context: before.context, stop });
  }

  /** Before a run's first model call: why it must not begin, or what its model is told. */
  async start(messages: readonly string[], stop: StopSignal): Promise<HookVerdict> {
    const { agent } = this.#options;
    return this.#all((hook, signal) => hook.subagentStart?.({ ...agent, messages }, signal), stop);
  }

  /** Before a run's reply goes out: why it must not; asked no more once it was refused. */
  async stop(
    end: { status: string; stopReason: string; summary: string },
    stop: StopSignal,
  ): Promise<string | undefined> {
    if (this.#isStopRefused) return undefined;
    const { agent } = this.#options;
    const { block } = await this.#all(
      (hook, signal) => hook.subagentStop?.({ ...agent, ...end }, signal),
      stop,
    );
    this.#isStopRefused = block !== undefined;
    return block;
  }

  async #before(
    { id, name, input }: Call,
    stop: StopSignal,
  ): Promise<{ block?: string; input: unknown; context: string[] }> {
    const context: string[] = [];
    let now = input;
    if (this.#missing.length > 0) return { block: lacking(this.#missing), input, context };
    for (const hook of this.#hooks) {
      if (!hook.preToolUse) continue;
      const call = { agent: this.#options.agent, toolUseId: id, tool: name };
      const said = await this.#ask(hook, stop, (signal) =>
        hook.preToolUse?.({ ...call, input: structuredClone(now) }, signal),
      );
      if (said.block !== undefined) return { block: blockedBy(hook, said.block), input: now, context };
      if (said.context !== undefined) context.push(wordsOf(hook, said.context));
      if ("input" in said && said.input !== undefined) now = said.input;
    }
    const { verdict, rule } = isDeepStrictEqual(now, input)
      ? { verdict: "allow", rule: "" }
      : permissionFor(this.#options.permissions, name, now);
    if (verdict !== "allow")
      return { block: `Not permitted as a hook changed it (${rule}).`, input: now, context };
    return { input: now, context };
  }

  async #after(
    call: Call,
    outcome: ToolOutcome,
    before: { context: readonly string[]; stop: StopSignal },
  ): Promise<ToolOutcome> {
    const context = [...before.context];
    let { content, isError } = outcome;
    for (const hook of this.#hooks) {
      if (!hook.postToolUse) continue;
      const { id: toolUseId, name: tool, input } = call;
      const after = { agent: this.#options.agent, toolUseId, tool, content, isError };
      const said = await this.#ask(hook, before.stop, (signal) =>
        hook.postToolUse?.({ ...after, input: structuredClone(input) }, signal),
      );
      if (said.block !== undefined) {
        const why = `${blockedBy(hook, said.block)} The call has been made; its result is withheld.`;
        return { ...outcome, content: why, isError: true };
      }
      if ("content" in said && typeof said.content === "string") content = withoutSecrets(said.content);
      if (said.context !== undefined) context.push(wordsOf(hook, said.context));
    }
    if (content === outcome.content && context.length === 0) return outcome;
    const fitted = fitResult([content, ...context].join("\n\n"));
    return { ...outcome, content: fitted.text, truncated: outcome.truncated || fitted.truncated, isError };
  }

  async #all(call: (hook: Hook, signal: AbortSignal) => unknown, stop: StopSignal): Promise<HookVerdict> {
    const context: string[] = [];
    if (this.#missing.length > 0) return { block: lacking(this.#missing) };
    for (const hook of this.#hooks) {
      const said = await this.#ask(hook, stop, (signal) => call(hook, signal));
      if (said.block !== undefined) return { block: blockedBy(hook, said.block) };
      if (said.context !== undefined) context.push(wordsOf(hook, said.context));
    }
    return context.length > 0 ? { context: context.join("\n\n") } : {};
  }

  /** What a hook says; whatever goes wrong with it blocks. */
  async #ask(hook: Hook, stop: StopSignal, call: (signal: AbortSignal) => unknown): Promise<HookVerdict> {
    if (stop.isStopped) return { block: STOPPED };
    const { timeoutMs = TIMEOUT_MS } = hook;
    const over = new AbortController();
    let forget = () => {};
    const givenUp = new Promise<HookVerdict>((resolve) => {
      const giveUp = (block: string) => {
        over.abort();
        resolve({ block });
      };
      const late = `it did not answer within ${timeoutMs} ms`;
      const timer = this.#options.clock.timeout(timeoutMs, () => giveUp(late));
      const unlisten = stop.onStop(() => giveUp(STOPPED));
      forget = () => {
        timer.cancel();
        unlisten();
      };
    });
    try {
      return await Promise.race([givenUp, asked(call, over.signal)]);
    } catch (error) {
      return { block: `it failed: ${clip(messageOf(error), WORDS_MAX_CHARS)}` };
    } finally {
      forget();
    }
  }
}

async function asked(call: (signal: AbortSignal) => unknown, signal: AbortSignal): Promise<HookVerdict> {
  const said: unknown = await call(signal);
  if (said === undefined || said === null) return {};
  if (typeof said !== "object" || Array.isArray(said))
    return { block: "it answered with something that is no verdict" };
  const verdict: HookVerdict = { ...said };
  const isText = (value: unknown) => value === undefined || typeof value === "string";
  if (!isText(verdict.block) || !isText(verdict.context))
    return { block: "it answered with something that is no verdict" };
  return verdict;
}

function blockedBy({ name }: Hook, why: string): string {
  return `Blocked by ${name}: ${clip(withoutSecrets(why), WORDS_MAX_CHARS)}`;
}

function wordsOf({ name }: Hook, words: string): string {
  return `[${name}: ${clip(withoutSecrets(words), WORDS_MAX_CHARS)}]`;
}

function lacking(names: readonly string[]): string {
  return `Blocked: this worker lacks ${names.length === 1 ? "the hook" : "the hooks"} ${names.join(", ")}, without which nothing may run.`;
}

function refusedOutcome(content: string): ToolOutcome {
  return { content, isError: true, isDenied: true, truncated: false, durationMs: 0 };
}
