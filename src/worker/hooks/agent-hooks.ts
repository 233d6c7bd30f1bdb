/**
 * The hooks of one agent at work: around its tool calls, at the beginning and the end of its runs.
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
import type { Hook, HookedAgent, HookVerdict } from "./hook.ts";

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
