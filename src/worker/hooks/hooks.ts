/**
 * Hooks: code of the operator that a worker calls around each tool call and each run of a sub-agent. This module has their
 * types, and {@link AgentHooks}, the hooks of one agent at work.
 *
 * 1. Everything fails closed: a hook blocks if it throws, returns an invalid verdict or takes too long. A hook that the
 *    agent names and the worker lacks blocks too.
 * 2. Hooks run in the order in which the worker was given them; after the first that blocks, no other is called.
 * 3. An input that a hook changed passes the permission rules again; a verdict other than "allow" refuses the call. Each
 *    hook gets a copy: only its return value changes anything.
 * 4. Secrets are removed from the text of a hook to the model; an input that it gives to a tool may hold them.
 * 5. A stopped run waits for no hook: the call or event is blocked, and the hook's signal aborts.
 */
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../shared/clock.ts";
import { messageOf } from "../../shared/errors.ts";
import { isJsonObject } from "../../shared/protocol/content.ts";
import { ASK_TOOL } from "../../shared/protocol/message.ts";
import { type PermissionRules, permissionFor } from "../../shared/protocol/permissions.ts";
import { clip } from "../../shared/protocol/text.ts";
import { withoutSecrets } from "../../shared/secrets.ts";
import type { StopSignal } from "../../shared/stop-signal.ts";
import type { ToolOutcome } from "../tools/registry.ts";
import { fitResult } from "../tools/result-text.ts";

/** The sub-agent for which a hook is called. */
export interface HookedAgent {
  tenant: string;
  parentId: string;
  agentId: string;
  uid: string;
  name: string;
  /** Number of the agent's run, counted from 1. */
  run: number;
  /** Name of the agent definition from which the agent was made. */
  definition?: string | undefined;
}

/**
 * A tool call: built-in, custom, skill or MCP. `input` comes from the model, or from earlier hooks that changed it. It is a
 * copy; changes to it have no effect.
 */
export interface HookedCall {
  agent: HookedAgent;
  toolUseId: string;
  tool: string;
  input: unknown;
}

/**
 * Verdict of a hook; {} lets things proceed. `block`: reason to block. `context`: text for the model, with the result. A verdict
 * with any other member blocks.
 */
export interface HookVerdict {
  block?: string;
  context?: string;
}

/** Verdict of a hook before a call. `input` replaces the model's input; it is checked and needs permission again. */
export interface PreToolUseVerdict extends HookVerdict {
  input?: Record<string, unknown>;
}

/** Verdict of a hook after a call. `content` replaces the text of the result. */
export interface PostToolUseVerdict extends HookVerdict {
  content?: string;
}

/** Return value of a hook's function. */
export type HookAnswer<Verdict> = Promise<Verdict | undefined> | Verdict | undefined;

/**
 * A hook. The worker awaits each function; one that throws, or takes longer than `timeoutMs`, blocks the call or event. Its
 * signal aborts when that time is over, or when its run is stopped: no run waits for a hook then. A worker that continues a
 * run calls a function again if the first worker's result was not committed.
 */
export interface Hook {
  /** Name by which profiles, definitions and spawns refer to it; 1 to 64 characters of `A-Za-z0-9._-`. */
  readonly name: string;
  /** True (default): it applies to every agent of the worker. False: only to agents that name it. */
  readonly everyAgent?: boolean;
  /** Default 10,000 ms. */
  readonly timeoutMs?: number;
  /**
   * Called before a tool call begins, after the permission rules have allowed it; also before a question to the parent is
   * asked. The model does not see the `context` of such a question: its result is the parent's answer.
   */
  preToolUse?(call: HookedCall, signal: AbortSignal): HookAnswer<PreToolUseVerdict>;
  /**
   * Called after a tool call. If it blocks, the model does not see the result, though the call has been made. Not called for
   * a parent's answer, which enters the log while no worker holds the run.
   */
  postToolUse?(
    call: HookedCall & { content: string; isError: boolean },
    signal: AbortSignal,
  ): HookAnswer<PostToolUseVerdict>;
  /** Called before a run's first model call. Blocked: the run ends `failed / model_error`. `context`: for the model. */
  subagentStart?(
    agent: HookedAgent & { messages: readonly string[] },
    signal: AbortSignal,
  ): HookAnswer<HookVerdict>;
  /** Called before a run's reply is sent. Blocked: the run ends `failed / model_error`. */
  subagentStop?(
    agent: HookedAgent & { status: string; stopReason: string; summary: string },
    signal: AbortSignal,
  ): HookAnswer<HookVerdict>;
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const LONGEST_TIMEOUT_MS = 600_000;
const FUNCTIONS = ["preToolUse", "postToolUse", "subagentStart", "subagentStop"] as const;

/**
 * Returns the problems of these hooks: an invalid name, timeout or function, or a name used twice. A hook without any
 * function is a problem, because its function is misspelt: it would never be called and would block nothing.
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

/** Options from which an agent's hooks are chosen. */
export interface AgentHooksOptions {
  agent: HookedAgent;
  /** Names of hooks in the agent's specification. */
  named: readonly string[];
  permissions: readonly PermissionRules[];
  clock: Clock;
}

/** Returns the hooks that apply to an agent; undefined if there are none. */
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

  /** Performs a tool call between its hooks; `stop` ends the wait for a hook. */
  async around(
    call: Call,
    perform: (input: unknown) => Promise<ToolOutcome>,
    stop: StopSignal,
  ): Promise<ToolOutcome> {
    const before = await this.before(call, stop);
    if (before.block !== undefined) return refusedOutcome(before.block);
    const outcome = await perform(before.input);
    return this.#after({ ...call, input: before.input }, outcome, { context: before.context, stop });
  }

  /** Calls the hooks before a run's first model call. `block`: why the run must not begin; `context`: text for its model. */
  async start(messages: readonly string[], stop: StopSignal): Promise<HookVerdict> {
    const { agent } = this.#options;
    return this.#all(
      (hook, signal) => hook.subagentStart?.({ ...agent, messages: [...messages] }, signal),
      stop,
    );
  }

  /** Calls the hooks before a run's reply; resolves to why it must not be sent. Does nothing after one refusal. */
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

  /** Calls the hooks before a call. `block`: why it must not begin; `input`: its input as they changed it. */
  async before(
    { id, name, input }: Call,
    stop: StopSignal,
  ): Promise<{ block?: string; input: unknown; context: string[] }> {
    const context: string[] = [];
    let now = input;
    if (this.#missing.length > 0) return { block: lacking(this.#missing), input, context };
    for (const hook of this.#hooks) {
      if (!hook.preToolUse) continue;
      const call = { agent: { ...this.#options.agent }, toolUseId: id, tool: name };
      const asking = (signal: AbortSignal) =>
        hook.preToolUse?.({ ...call, input: structuredClone(now) }, signal);
      const said = await this.#ask(hook, stop, asking, "input");
      if (said.block !== undefined) return { block: blockedBy(hook, said.block), input: now, context };
      if (said.context !== undefined) context.push(wordsOf(hook, said.context));
      if (said.input !== undefined) now = said.input;
    }
    const { verdict, rule } = isDeepStrictEqual(now, input)
      ? { verdict: "allow", rule: "" }
      : permissionFor(this.#options.permissions, name, now);
    // A question asks the parent by itself, as in `next.ts`.
    if (verdict === "deny" || (verdict === "ask" && name !== ASK_TOOL))
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
      const after = { agent: { ...this.#options.agent }, toolUseId, tool, content, isError };
      const asking = (signal: AbortSignal) =>
        hook.postToolUse?.({ ...after, input: structuredClone(input) }, signal);
      const said = await this.#ask(hook, before.stop, asking, "content");
      if (said.block !== undefined) {
        const why = `${blockedBy(hook, said.block)} The call has been made; its result is withheld.`;
        return { ...outcome, content: why, isError: true };
      }
      if (said.content !== undefined) content = withoutSecrets(said.content);
      if (said.context !== undefined) context.push(wordsOf(hook, said.context));
    }
    if (content === outcome.content && context.length === 0) return outcome;
    return { ...outcome, content: fitResult([content, ...context].join("\n\n")), isError };
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

  /** Calls a hook; every failure of it blocks. `also`: what its verdict may hold besides `block` and `context`. */
  async #ask(
    hook: Hook,
    stop: StopSignal,
    call: (signal: AbortSignal) => unknown,
    also?: "input" | "content",
  ): Promise<AnyVerdict> {
    if (stop.isStopped) return { block: STOPPED };
    const { timeoutMs = TIMEOUT_MS } = hook;
    const over = new AbortController();
    let forget = () => {};
    const givenUp = new Promise<AnyVerdict>((resolve) => {
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
      return await Promise.race([givenUp, asked(call, over.signal, also)]);
    } catch (error) {
      return { block: `it failed: ${clip(messageOf(error), WORDS_MAX_CHARS)}` };
    } finally {
      forget();
    }
  }
}

/** Verdict of a hook before or after anything. */
type AnyVerdict = PreToolUseVerdict & PostToolUseVerdict;

/** Returns a copy of the verdict, which the hook cannot change. Rejects if it cannot be copied. */
async function asked(
  call: (signal: AbortSignal) => unknown,
  signal: AbortSignal,
  also: string | undefined,
): Promise<AnyVerdict> {
  const said: unknown = await call(signal);
  if (said === undefined || said === null) return {};
  if (typeof said !== "object" || !isPlain(said))
    return { block: "it answered with something that is no verdict" };
  // Any other member is taken for a misspelt `block`.
  const known: readonly unknown[] = ["block", "context", also];
  const held = { ...said };
  const [unknown] =
    Object.entries(held).find(([name, value]) => value !== undefined && !known.includes(name)) ?? [];
  if (unknown !== undefined)
    return {
      block: `it answered with "${clip(unknown, 100)}", which is no member of a verdict: block names the reason`,
    };
  const verdict: AnyVerdict = structuredClone(held);
  const areTexts = [verdict.block, verdict.context, verdict.content].every(
    (value) => value === undefined || typeof value === "string",
  );
  const { input } = verdict;
  if (!areTexts || !(input === undefined || (isJsonObject(input) && isPlain(input))))
    return { block: "it answered with something that is no verdict" };
  return verdict;
}

/** Returns false for instances of classes: what an error, a map or a getter says would be lost, and the call would go on. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === null) return true;
  // Another realm has an `Object.prototype` of its own.
  const above: unknown = Object.getPrototypeOf(prototype);
  return above === null;
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
  return { content, isError: true, isDenied: true, durationMs: 0 };
}
