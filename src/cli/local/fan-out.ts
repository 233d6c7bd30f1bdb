/** Gives prompts to sub-agents in parallel, shows their progress, and prints each reply when it arrives. */

import { type Parent, type ParentOptions, parentOf } from "../../producer/parent.ts";
import type { TaskWait } from "../../producer/task-wait-reasons.ts";
import { within } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import { newRequestKey } from "../../shared/protocol/ids.ts";
import { MAX_LIVE_AGENTS } from "../../shared/protocol/limits.ts";
import type { OutputSchema } from "../../shared/protocol/output.ts";
import type { Reply } from "../../shared/protocol/reply.ts";
import { withoutPassword } from "../../shared/redis-url.ts";
import { onAbort } from "../../shared/stop-signal.ts";
import { type CommandContext, EXIT, exitCodeOf } from "../command.ts";
import { formatPlural } from "../terminal/numbers.ts";
import { createProgress, type Progress } from "../terminal/progress.ts";
import { renderReply, renderTotals } from "../terminal/reply.ts";
import { toJsonLine } from "../terminal/text.ts";
import { CommandAgents } from "./command-agents.ts";
import type { LocalService } from "./service.ts";
import { renderWait } from "./wait.ts";

/** A prompt and the name of its sub-agent; names are unique within one call. */
export interface NamedPrompt {
  name: string;
  prompt: string;
  /** Label of its progress row; default: the name. */
  label?: string;
}

/** Flags of the verbs that run prompts. */
export interface PromptFlags {
  /** Print all replies as one JSON document at the end. */
  json: boolean;
  /** Sub-agents in parallel; default and maximum 10. */
  parallel?: number;
  /** Time (ms) after which the sub-agents are asked to finish with what they have. */
  timeout?: number;
}

/** Options that only `run` sets. */
export interface PromptOptions extends PromptFlags {
  /** Name of the agent definition of all sub-agents. */
  agent?: string;
  /** Default: a new parent for this command. */
  parentId?: string | undefined;
  /** Settings of all sub-agents. */
  profile?: Pick<ParentOptions, "model" | "system" | "effort" | "task_budget" | "limits" | "budgets">;
  /** Exact tools of each; default: those of the definition or the parent, which is also the most it may name. */
  tools?: readonly string[];
  /** Schema of each answer; default: that of the definition, if it has one. */
  outputSchema?: OutputSchema;
}

/** A reply; `full_text`: the whole text, if the summary has only a part of it. */
type WholeReply = Reply & { full_text?: string };

/**
 * State of one call of {@link runPrompts}. It stops in two steps: `finish` asks the sub-agents for their results so far,
 * `destroying` ends them.
 */
interface FanOut {
  json: boolean;
  /** Options of each task beside its name and prompt. */
  taskOptions: { agent?: string; tools?: string[]; output_schema?: OutputSchema };
  context: CommandContext;
  service: LocalService;
  parent: Parent;
  /** True if no other command acts as this parent. */
  isOwnParent: boolean;
  progress: Progress;
  own: CommandAgents;
  /** Prompts without a sub-agent yet. */
  waiting: NamedPrompt[];
  destroying: AbortSignal;
  replies: WholeReply[];
  errors: { name: string; error: unknown }[];
  /** Reported reasons for waiting; cleared when a sub-agent waits no more. */
  told: Set<string>;
  /** Number of sub-agents that were destroyed because the command had to stop. */
  destroyed: number;
  /** True if Redis confirmed that no sub-agent of this command is live; undefined before the check. */
  areGone?: boolean;
}

/** Maximum length of the configured parent id in the id of a command's own parent; a random part follows. */
const OWN_NAME_CHARS = 39;
const POLL_EVERY_MS = 2_000;
/** Time limit of the wait for the command's own worker before the totals, for a tool that ignores the stop. */
const RELEASED_WITHIN_MS = 5_000;
/** Other workers book a call that a destroy aborted within this time: they wait a moment for its usage. */
const BOOKED_WITHIN_MS = 1_000;

/**
 * Runs all prompts and resolves to the exit code: 0 if all succeeded, 130 if interrupted, else that of the first error,
 * or 1. Throws `service.failure` if it is set.
 */
export async function runPrompts(
  context: CommandContext,
  service: LocalService,
  questions: readonly NamedPrompt[],
  { json, agent, tools, outputSchema, parallel = MAX_LIVE_AGENTS, timeout, parentId, profile }: PromptOptions,
): Promise<number> {
  const { clock, config, output } = context;
  const startedAtMs = clock.monotonicMs();
  const options = {
    parentId: parentId ?? `${config.parentId.slice(0, OWN_NAME_CHARS)}-${newRequestKey()}`,
    tenant: config.tenant,
    client: service.client,
    ...profile,
  };
  const parent = parentOf(options, "run");
  const giveUp = new AbortController();
  const progress = createProgress(output, clock, { rowOf: (event) => own.nameOf(event) ?? event.name });
  const own = new CommandAgents(progress.apply);
  const asking: FanOut = {
    ...{ json, context, service, parent, isOwnParent: parentId === undefined },
    taskOptions: {
      ...(agent !== undefined && { agent }),
      ...(tools && { tools: [...tools] }),
      ...(outputSchema && { output_schema: outputSchema }),
    },
    ...{ progress, own },
    waiting: [...questions],
    destroying: AbortSignal.any([service.signal, giveUp.signal]),
    ...{ replies: [], errors: [], told: new Set(service.paused && ["resume"]), destroyed: 0 },
  };
  const finish = () => void finishAll(asking).catch(() => giveUp.abort());
  const forget = onAbort(context.signal, finish);
  const timer = timeout === undefined ? undefined : clock.timeout(timeout, finish);
  const hide = show(asking, questions);
  try {
    await Promise.all(Array.from({ length: Math.min(parallel, questions.length) }, () => lane(asking)));
  } finally {
    forget();
    timer?.cancel();
    await hide();
    if (context.signal.aborted && !service.failure) asking.areGone = await noneIsLive(asking);
    if (asking.areGone && asking.destroyed > 0) await untilBooked(asking);
    await sayTotals(asking, questions.length, startedAtMs);
    await parent.stop();
  }
  const elapsedMs = clock.monotonicMs() - startedAtMs;
  if (json && !service.failure) output.result(toJsonLine(documentOf(asking, questions, elapsedMs)));
  return outcomeOf(asking, questions.length);
}

/** Shows the progress of the prompts until the returned function is called. */
function show(asking: FanOut, questions: readonly NamedPrompt[]): () => Promise<void> {
  const { progress } = asking;
  const watching = new AbortController();
  const watched = Promise.all([watch(asking, watching.signal), watchRedis(asking, watching.signal)]);
  const labels = labelsOf(questions.map(({ name, label }) => label ?? name));
  for (const [n, { name }] of questions.entries()) progress.add(name, labels[n]);
  progress.start();
  return async () => {
    watching.abort();
    await watched;
    progress.stop();
  };
}

/** Runs waiting prompts one after the other until none is left. */
async function lane(asking: FanOut): Promise<void> {
  const { waiting, destroying } = asking;
  for (let next = waiting.shift(); next && !destroying.aborted; next = waiting.shift()) {
    await ask(asking, next);
  }
}

/** A common beginning shorter than this is kept in every row. */
const BEGINNING_MIN_CHARS = 10;

/** Returns the row labels of the names: numbered if there are several, without a beginning shared with another name. */
export function labelsOf(names: readonly string[]): readonly string[] {
  if (names.length < 2) return names;
  const shares = sharesOf(names);
  return names.map((name, n) => {
    const shared = shares[n] ?? 0;
    const cut = name.slice(0, shared).lastIndexOf(" ") + 1;
    return `${n + 1} ${cut >= BEGINNING_MIN_CHARS && cut < name.length ? `… ${name.slice(cut)}` : name}`;
  });
}

/** Returns, for each name, the length of the longest beginning that it shares with another one. */
function sharesOf(names: readonly string[]): number[] {
  // In their order the name that shares most with a name stands beside it.
  const order = [...names.entries()].sort(([, a], [, b]) => (a < b ? -1 : a > b ? 1 : 0));
  const shares: number[] = [];
  for (const [at, [n, name]] of order.entries()) {
    const beside = [order[at - 1], order[at + 1]];
    shares[n] = Math.max(...beside.map((other) => (other ? sharedLength(name, other[1]) : 0)));
  }
  return shares;
}

/** Returns the length of the common beginning of two texts. */
function sharedLength(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length += 1;
  return length;
}

/** Resolves when the usage of the destroyed runs is booked, because an aborted call is also paid for. */
async function untilBooked({ context: { clock, logger }, service }: FanOut): Promise<void> {
  const released = service
    .release()
    .catch((error: unknown) => logger.warn({ problem: messageOf(error) }, "The worker was not released"));
  await within(clock, RELEASED_WITHIN_MS, released);
  if (service.workers.length > 0) await clock.sleep(BOOKED_WITHIN_MS);
}

/** Prints the totals. After an interruption it takes them from the parent's usage, which includes destroyed runs. */
async function sayTotals(
  { context, parent, replies, isOwnParent, service }: FanOut,
  asked: number,
  startedAtMs: number,
): Promise<void> {
  const { clock, output, signal } = context;
  const isWhole = signal.aborted && isOwnParent && !service.failure;
  const spent = isWhole ? await parent.usage().catch(() => undefined) : undefined;
  const elapsedMs = clock.monotonicMs() - startedAtMs;
  const view = { asked, elapsedMs, columns: output.size.columns, style: output.style };
  output.note(renderTotals(replies, { ...view, ...(spent && { spent }) }));
}

/** Starts no further prompt, and asks all sub-agents of this command to finish. Rejects if there is nothing to finish. */
async function finishAll(asking: FanOut): Promise<void> {
  const { context, parent, waiting, replies, own, destroying, told } = asking;
  waiting.length = 0;
  await own.started();
  if (destroying.aborted) return;
  const live = (await parent.list()).filter((agent) => own.nameOf(agent) !== undefined);
  const asked = await Promise.allSettled(live.map(({ agent_id }) => parent.finish(agent_id)));
  const finishing = asked.filter(({ status }) => status === "fulfilled").length;
  if (finishing === 0) {
    if (live.length === 0 && replies.length > 0) return;
    const refused = asked.find((each) => each.status === "rejected");
    throw refused?.reason ?? new SubagentError("agent_ended", "No sub-agent of this command is live.");
  }
  const whole = `${formatPlural(finishing, "sub-agent")} ${finishing === 1 ? "hands" : "hand"} back what was found`;
  const again = context.signal.aborted ? "again " : "";
  const when = told.has("resume") ? ", after subagent-queue resume" : "";
  const sentence = `Finishing: ${whole}${when}; Ctrl-C ${again}destroys what is left.`;
  context.output.note(sentence);
}

async function ask(asking: FanOut, { name, prompt }: NamedPrompt): Promise<void> {
  const { context, parent, progress, own, replies, errors, json, taskOptions, destroying } = asking;
  const { output } = context;
  try {
    const task = parent.task(
      { name, prompt, ...taskOptions },
      { signal: destroying, onWait: (wait) => tellWait(asking, wait) },
    );
    own.start(name, task.started);
    const reply = await task;
    const full_text = await textOf(asking, reply);
    // Kept until the end for the JSON document alone: a thousand long texts would fill the memory.
    replies.push(json && full_text !== undefined ? { ...reply, full_text } : reply);
    progress.finish(name, reply);
    if (json) return;
    const { resultColumns: columns, resultStyle: style } = output;
    const question = prompt === name ? undefined : prompt;
    const shown = full_text === undefined ? reply : { ...reply, summary: full_text, truncated: false };
    output.result(renderReply(shown, { columns, style, ...(question && { question }) }));
  } catch (error) {
    progress.drop(name);
    if (destroying.aborted) {
      asking.destroyed += 1;
      return;
    }
    const isKnown = errors.some((other) => messageOf(other.error) === messageOf(error));
    errors.push({ name, error });
    if (!isKnown) output.note(`${name}: ${messageOf(error)}`);
  }
}

/** Returns the whole text of a shortened reply: nothing else could read it from a Redis that ends with this command. */
async function textOf({ parent }: FanOut, reply: Reply): Promise<string | undefined> {
  if (!reply.truncated) return undefined;
  return parent.fullText(reply.reply_id).catch(() => undefined);
}

/** Prints once why sub-agents wait; the progress display reports missing tools. */
function tellWait({ context, service, told }: FanOut, wait: TaskWait | undefined): void {
  if (wait === undefined) told.clear();
  if (wait === undefined || wait.for === "tools") return;
  const about = wait.for === "provider" ? `${wait.provider} ${wait.reason}` : wait.for;
  if (told.has(about)) return;
  told.add(about);
  context.output.note(renderWait(wait, withoutPassword(service.redis.url)));
}

/** Reports to the progress display whether Redis answers, because its rows are stale without Redis. */
async function watchRedis({ parent, progress, context }: FanOut, signal: AbortSignal): Promise<void> {
  for (;;) {
    await context.clock.sleep(POLL_EVERY_MS, signal);
    if (signal.aborted) return;
    const isThere = await parent.list().then(
      () => true,
      () => false,
    );
    progress.away(!isThere);
  }
}

/** Shows events until `signal` aborts; events are best effort, so losing them is no failure. */
async function watch({ parent, own, context }: FanOut, signal: AbortSignal): Promise<void> {
  try {
    for await (const event of parent.events({ signal })) own.hear(event);
  } catch (error) {
    context.logger.debug({ problem: messageOf(error) }, "progress events ended early");
  }
}

/** Returns the document of --json: replies and errors in the order of the prompts; `destroyed` is null if unknown. */
function documentOf(
  { context, replies, errors, destroyed, areGone }: FanOut,
  questions: readonly NamedPrompt[],
  elapsedMs: number,
): Record<string, unknown> {
  return {
    replies: questions.flatMap(({ name }) => replies.find((reply) => reply.name === name) ?? []),
    errors: questions.flatMap(({ name }) =>
      errors
        .filter((failed) => failed.name === name)
        .map(({ error }) => ({
          name,
          code: error instanceof SubagentError ? error.code : null,
          message: messageOf(error),
        })),
    ),
    destroyed: context.signal.aborted && !areGone ? null : destroyed,
    elapsed_ms: Math.round(elapsedMs),
  };
}

async function noneIsLive({ parent, own }: FanOut): Promise<boolean> {
  try {
    return !(await parent.list()).some((agent) => own.mayBe(agent));
  } catch {
    return false;
  }
}

function outcomeOf(
  { context, service, parent, replies, errors, destroyed, areGone }: FanOut,
  asked: number,
): number {
  if (service.failure) throw service.failure;
  if (context.signal.aborted) {
    const early = replies.filter(({ stop_reason }) => stop_reason === "finished_by_parent").length;
    const finished = early > 0 ? `${formatPlural(early, "sub-agent")} finished early, ` : "";
    const end = destroyed > 0 ? `${formatPlural(destroyed, "sub-agent")} destroyed` : "none destroyed";
    context.output.note(
      areGone
        ? `Interrupted: ${finished}${end}.`
        : `Interrupted, but Redis did not confirm that the sub-agents are destroyed: see subagent-queue list --parent ${parent.parentId}`,
    );
    return EXIT.interrupted;
  }
  const first = errors[0]?.error;
  if (first instanceof SubagentError) return exitCodeOf(first);
  const succeeded = replies.filter((reply) => reply.status === "succeeded").length;
  return succeeded === asked ? EXIT.done : EXIT.failed;
}
