/** Hands prompts to sub-agents side by side, shows their progress, and prints each reply as it comes. */

import { createParent, type Parent, type ParentOptions } from "../../producer/parent.ts";
import type { TaskWait } from "../../producer/task-wait-reasons.ts";
import { within } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import { newRequestKey } from "../../shared/protocol/ids.ts";
import { MAX_LIVE_AGENTS } from "../../shared/protocol/limits.ts";
import type { Reply } from "../../shared/protocol/reply.ts";
import { withoutPassword } from "../../shared/redis-url.ts";
import { onAbort } from "../../shared/stop-signal.ts";
import { type CommandContext, EXIT, exitCodeOf } from "../command.ts";
import { formatPlural } from "../terminal/numbers.ts";
import { createProgress, type Progress } from "../terminal/progress.ts";
import { renderReply, renderTotals } from "../terminal/reply.ts";
import { plainLine, toJsonLine } from "../terminal/text.ts";
import { CommandAgents } from "./command-agents.ts";
import type { LocalService } from "./service.ts";

/** One prompt and the name of the sub-agent that gets it; names are unique within one call. */
export interface NamedPrompt {
  name: string;
  prompt: string;
  /** What tells its row from the others; default: the name. */
  label?: string;
}

/** How the prompts are handed over. */
export interface PromptFlags {
  /** All replies as one JSON document, at the end. */
  json: boolean;
  /** Sub-agents side by side; default and at most 10. */
  parallel?: number;
  /** After so many ms the sub-agents are asked to hand back what they have. */
  timeout?: number;
}

/** What only `run` says. */
export interface PromptOptions extends PromptFlags {
  /** Name of the agent definition that all its sub-agents are made from. */
  agent?: string;
  /** Default: a parent of this command's own. */
  parentId?: string | undefined;
  /** What all its sub-agents are given. */
  profile?: Pick<ParentOptions, "model" | "system" | "effort" | "task_budget" | "limits" | "budgets">;
  /** Exactly these tools for each; default: those of the definition or the parent, which these may not exceed. */
  tools?: readonly string[];
}

/**
 * One call of {@link runPrompts}. It ends in two steps: `finish` asks the sub-agents for what they have found, `destroying`
 * ends them.
 */
interface FanOut {
  json: boolean;
  /** What each task says beside its name and prompt. */
  taskOptions: { agent?: string; tools?: string[] };
  context: CommandContext;
  service: LocalService;
  parent: Parent;
  /** Whether no other command acts as this parent. */
  isOwnParent: boolean;
  progress: Progress;
  own: CommandAgents;
  /** Questions that no sub-agent has yet. */
  waiting: NamedPrompt[];
  destroying: AbortSignal;
  replies: Reply[];
  errors: { name: string; error: unknown }[];
  /** What the sub-agents wait for and was said, until one of them waits for nothing. */
  told: Set<string>;
  /** Sub-agents whose prompts were given up because the command was told to stop. */
  destroyed: number;
  /** Whether Redis has confirmed that no sub-agent of this command is live; undefined until it was asked. */
  areGone?: boolean;
}

/** Room for the random part behind the name of a command's own parent. */
const OWN_NAME_CHARS = 39;
const LOOK_EVERY_MS = 2_000;
/** The sum waits no longer for the command's own worker, also where a tool heeds no stop. */
const RELEASED_WITHIN_MS = 5_000;
/** Other workers book a call that a destroy cut off within this time: they wait a moment for its bill. */
const BOOKED_WITHIN_MS = 1_000;

/**
 * Asks every question and resolves with the exit code: 0 when all succeeded, 130 when told to stop, else that of the
 * first error, or 1. Throws the service's loss.
 */
export async function runPrompts(
  context: CommandContext,
  service: LocalService,
  questions: readonly NamedPrompt[],
  { json, agent, tools, parallel = MAX_LIVE_AGENTS, timeout, parentId, profile }: PromptOptions,
): Promise<number> {
  const { clock, config, output } = context;
  const startedAtMs = clock.monotonicMs();
  const parent = createParent({
    parentId: parentId ?? `${config.parentId.slice(0, OWN_NAME_CHARS)}-${newRequestKey()}`,
    tenant: config.tenant,
    client: service.client,
    ...profile,
  });
  const giveUp = new AbortController();
  const progress = createProgress(output, clock, { rowOf: (event) => own.nameOf(event) ?? event.name });
  const own = new CommandAgents(progress.apply);
  const asking: FanOut = {
    ...{ json, context, service, parent, isOwnParent: parentId === undefined },
    taskOptions: { ...(agent !== undefined && { agent }), ...(tools && { tools: [...tools] }) },
    ...{ progress, own },
    waiting: [...questions],
    destroying: AbortSignal.any([service.signal, giveUp.signal]),
    ...{ replies: [], errors: [], told: new Set(), destroyed: 0 },
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
    if (context.signal.aborted && !service.lost) asking.areGone = await noneIsLive(asking);
    if (asking.areGone && asking.destroyed > 0) await untilBooked(asking);
    await sayTotals(asking, questions.length, startedAtMs);
    await parent.stop();
  }
  const elapsedMs = clock.monotonicMs() - startedAtMs;
  if (json && !service.lost) output.result(toJsonLine(documentOf(asking, questions, elapsedMs)));
  return outcomeOf(asking, questions.length);
}

/** Shows the questions at work until the answer is called. */
function show(asking: FanOut, questions: readonly NamedPrompt[]): () => Promise<void> {
  const { progress } = asking;
  const watching = new AbortController();
  const watched = Promise.all([watch(asking, watching.signal), lookForRedis(asking, watching.signal)]);
  const labels = labelsOf(questions.map(({ name, label }) => label ?? name));
  for (const [n, { name }] of questions.entries()) progress.add(name, labels[n]);
  progress.start();
  return async () => {
    watching.abort();
    await watched;
    progress.stop();
  };
}

/** Asks one question after the other until none waits. */
async function lane(asking: FanOut): Promise<void> {
  const { waiting, destroying } = asking;
  for (let next = waiting.shift(); next && !destroying.aborted; next = waiting.shift()) {
    await ask(asking, next);
  }
}

/** Below this a common beginning is shown in every row. */
const BEGINNING_MIN_CHARS = 10;

/** Names as rows show them: numbered where there are several, and without the words that each shares with another. */
export function labelsOf(names: readonly string[]): readonly string[] {
  if (names.length < 2) return names;
  return names.map((name, n) => {
    const others = names.filter((_, other) => other !== n);
    const shared = Math.max(...others.map((other) => sharedLength(name, other)));
    const cut = name.slice(0, shared).lastIndexOf(" ") + 1;
    return `${n + 1} ${cut >= BEGINNING_MIN_CHARS && cut < name.length ? `… ${name.slice(cut)}` : name}`;
  });
}

/** How many characters two texts begin with. */
function sharedLength(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length += 1;
  return length;
}

/** Resolves when what the destroyed runs have bought stands in the parent's usage: also a call that was cut off has its price. */
async function untilBooked({ context: { clock, logger }, service }: FanOut): Promise<void> {
  const released = service
    .release()
    .catch((error: unknown) => logger.warn({ problem: messageOf(error) }, "The worker was not released"));
  await within(clock, RELEASED_WITHIN_MS, released);
  if (service.workers.length > 0) await clock.sleep(BOOKED_WITHIN_MS);
}

/** Says what all of it came to. After an interruption the parent's usage has what destroyed runs used, too. */
async function sayTotals(
  { context, parent, replies, isOwnParent, service }: FanOut,
  asked: number,
  startedAtMs: number,
): Promise<void> {
  const { clock, output, signal } = context;
  const isWhole = signal.aborted && isOwnParent && !service.lost;
  const spent = isWhole ? await parent.usage().catch(() => undefined) : undefined;
  const elapsedMs = clock.monotonicMs() - startedAtMs;
  const view = { asked, elapsedMs, columns: output.size.columns, style: output.style };
  output.note(...renderTotals(replies, { ...view, ...(spent && { spent }) }));
}

/** Begins nothing more, and asks every sub-agent of this command to hand back what it has. Rejects when none could be. */
async function finishAll({ context, parent, waiting, replies, own, destroying }: FanOut): Promise<void> {
  waiting.length = 0;
  await own.started();
  if (destroying.aborted) return;
  const live = (await parent.list()).filter((agent) => own.nameOf(agent) !== undefined);
  const asked = await Promise.allSettled(live.map(({ agent_id }) => parent.finish(agent_id)));
  const finishing = asked.filter(({ status }) => status === "fulfilled").length;
  if (live.length > 0 && finishing === 0)
    throw new SubagentError("redis_unavailable", "no sub-agent was asked");
  const whole = `${formatPlural(finishing, "sub-agent")} ${finishing === 1 ? "hands" : "hand"} back what was found`;
  context.output.note(
    `Finishing: ${whole}; Ctrl-C ${context.signal.aborted ? "again " : ""}destroys what is left.`,
  );
  if (live.length === 0 && replies.length === 0)
    throw new SubagentError("agent_ended", "nothing is left to finish");
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
    replies.push(reply);
    progress.finish(name, reply);
    if (json) return;
    const { resultColumns: columns, resultStyle: style } = output;
    const question = prompt === name ? undefined : prompt;
    output.result(...renderReply(reply, { columns, style, ...(question && { question }) }));
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

/** Says once what sub-agents wait for; tools that no worker has are told by the progress. */
function tellWait({ context, service, told }: FanOut, wait: TaskWait | undefined): void {
  if (wait === undefined) told.clear();
  if (wait === undefined || wait.for === "tools") return;
  const since = timeOf(wait.since);
  const line =
    wait.for === "worker"
      ? `No worker has been live on ${withoutPassword(service.redis.url)} since ${since}: the runs wait until one joins (subagent-queue worker).`
      : `${plainLine(wait.provider)} has failed or limited calls since ${since} (${plainLine(wait.reason)}): the next attempt is at ${timeOf(wait.next_try_at)}.`;
  const about = wait.for === "worker" ? "worker" : `${wait.provider} ${wait.reason}`;
  if (told.has(about)) return;
  told.add(about);
  context.output.note(line);
}

/** The time of day of an ISO 8601 instant, UTC. */
function timeOf(instant: string): string {
  return `${instant.slice(11, 19)}Z`;
}

/** Tells the progress whether Redis answers: rows of a Redis that is away are old. */
async function lookForRedis({ parent, progress, context }: FanOut, signal: AbortSignal): Promise<void> {
  for (;;) {
    await context.clock.sleep(LOOK_EVERY_MS, signal);
    if (signal.aborted) return;
    const isThere = await parent.list().then(
      () => true,
      () => false,
    );
    progress.away(!isThere);
  }
}

/** Shows events until `signal` aborts; events are hints, so losing them is no failure. */
async function watch({ parent, own, context }: FanOut, signal: AbortSignal): Promise<void> {
  try {
    for await (const event of parent.events({ signal })) own.hear(event);
  } catch (error) {
    context.logger.debug({ problem: messageOf(error) }, "progress events ended early");
  }
}

/** What --json prints: replies and errors in the order of the questions; `destroyed` is null where it is not known. */
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
  if (service.lost) throw service.lost;
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
