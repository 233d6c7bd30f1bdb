/** Hands prompts to sub-agents side by side, shows their progress, and prints each reply as it comes. */

import { createParent, type Parent } from "../producer/parent.ts";
import { messageOf, SubagentError } from "../shared/errors.ts";
import { newRequestKey } from "../shared/protocol/ids.ts";
import type { Reply } from "../shared/protocol/reply.ts";
import { MAX_LIVE_AGENTS } from "../shared/protocol/timing.ts";
import type { CommandContext } from "./command.ts";
import { EXIT, exitCodeOf } from "./exit-code.ts";
import { formatPlural } from "./figures.ts";
import { toJsonLine } from "./json.ts";
import type { LocalService } from "./local-service.ts";
import { createProgress, type Progress } from "./progress.ts";
import { renderReply, renderTotals } from "./reply-view.ts";

/** One prompt and the name of the sub-agent that gets it; names are unique within one call. */
export interface Question {
  name: string;
  prompt: string;
}

/** What the command line says. */
export interface AskFlags {
  /** All replies as one JSON document, at the end. */
  json: boolean;
}

interface Asking {
  json: boolean;
  context: CommandContext;
  service: LocalService;
  parent: Parent;
  progress: Progress;
  replies: Reply[];
  errors: { name: string; error: unknown }[];
  /** Sub-agents whose prompts were given up because the command was told to stop. */
  destroyed: number;
  /** Whether Redis has confirmed that no sub-agent of this command is live; undefined until it was asked. */
  areGone?: boolean;
}

/**
 * Asks every question, at most ten at a time, and resolves with the exit code: 0 when all succeeded, 130 when told
 * to stop (what was spawned is destroyed), else that of the first error, or 1. Throws the service's loss.
 */
export async function askAll(
  context: CommandContext,
  service: LocalService,
  questions: readonly Question[],
  { json }: AskFlags,
): Promise<number> {
  const { clock, config, output } = context;
  const startedAtMs = clock.monotonicMs();
  const parentId = `cli-${newRequestKey()}`;
  const parent = createParent({
    parentId,
    tenant: config.tenant,
    client: service.client,
    model: service.model,
  });
  const progress = createProgress(output, clock);
  const asking: Asking = { json, context, service, parent, progress, replies: [], errors: [], destroyed: 0 };
  const watching = new AbortController();
  const watched = watch(asking, watching.signal);
  for (const { name } of questions) progress.add(name);
  progress.start();
  try {
    const waiting = [...questions];
    const lane = async () => {
      for (let next = waiting.shift(); next && !service.signal.aborted; next = waiting.shift()) {
        await ask(asking, next);
      }
    };
    await Promise.all(Array.from({ length: Math.min(MAX_LIVE_AGENTS, questions.length) }, lane));
  } finally {
    watching.abort();
    await watched;
    progress.stop();
    if (context.signal.aborted && !service.lost) asking.areGone = await noneIsLive(parent);
    await parent.stop();
  }
  const elapsedMs = clock.monotonicMs() - startedAtMs;
  const totals = { asked: questions.length, elapsedMs, columns: output.size.columns, style: output.style };
  output.note(...renderTotals(asking.replies, totals));
  if (json && !service.lost) output.result(toJsonLine(documentOf(asking, questions, elapsedMs)));
  return outcomeOf(asking, questions.length);
}

async function ask(asking: Asking, { name, prompt }: Question): Promise<void> {
  const { context, service, parent, progress, replies, errors, json } = asking;
  const { output } = context;
  try {
    const reply = await parent.task({ name, prompt, signal: service.signal });
    replies.push(reply);
    progress.finish(name, reply);
    if (json) return;
    const { resultColumns: columns, resultStyle: style } = output;
    const question = prompt === name ? undefined : prompt;
    output.result(...renderReply(reply, { columns, style, ...(question && { question }) }));
  } catch (error) {
    progress.drop(name);
    if (service.signal.aborted) {
      asking.destroyed += 1;
      return;
    }
    const isKnown = errors.some((other) => messageOf(other.error) === messageOf(error));
    errors.push({ name, error });
    if (!isKnown) output.note(`${name}: ${messageOf(error)}`);
  }
}

/** Shows events until `signal` aborts; events are hints, so losing them is no failure. */
async function watch({ parent, progress, context }: Asking, signal: AbortSignal): Promise<void> {
  try {
    for await (const event of parent.events({ signal })) progress.apply(event);
  } catch (error) {
    context.logger.debug({ problem: messageOf(error) }, "progress events ended early");
  }
}

/** What --json prints: replies and errors in the order of the questions; `destroyed` is null where nobody knows. */
function documentOf(
  { context, replies, errors, destroyed, areGone }: Asking,
  questions: readonly Question[],
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

async function noneIsLive(parent: Parent): Promise<boolean> {
  try {
    return (await parent.list()).length === 0;
  } catch {
    return false;
  }
}

function outcomeOf(
  { context, service, parent, replies, errors, destroyed, areGone }: Asking,
  asked: number,
): number {
  if (service.lost) throw service.lost;
  if (context.signal.aborted) {
    const { parentId } = parent;
    context.output.note(
      areGone
        ? `Interrupted: ${formatPlural(destroyed, "sub-agent")} destroyed.`
        : `Interrupted, but Redis did not confirm that the sub-agents are destroyed: see subagent-queue list --parent ${parentId}`,
    );
    return EXIT.interrupted;
  }
  const first = errors[0]?.error;
  if (first instanceof SubagentError) return exitCodeOf(first);
  const succeeded = replies.filter((reply) => reply.status === "succeeded").length;
  return succeeded === asked ? EXIT.done : EXIT.failed;
}
