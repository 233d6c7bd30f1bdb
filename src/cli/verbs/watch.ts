/** `watch`: shows the live agents, including those of run and start, until Ctrl-C; it ends none of them. */
import { createParent, type Parent } from "../../producer/parent.ts";
import { messageOf } from "../../shared/errors.ts";
import type { AgentView, EndedReason } from "../../shared/protocol/agent.ts";
import type { ReplyStatus } from "../../shared/protocol/reply.ts";
import {
  type ActingFlags,
  actAsParent,
  actingOptions,
  type ParentSession,
  SEEN_PARENT,
} from "../as-parent.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import type { WatchListener } from "../local/agent-watch.ts";
import { type FoundParent, parentFinder, watchParents } from "../local/parents-watch.ts";
import { formatPlural, formatUsd } from "../terminal/numbers.ts";
import type { Style } from "../terminal/output.ts";
import { createProgress, type Progress } from "../terminal/progress.ts";
import { rowWithView, STATUS_GLYPHS } from "../terminal/progress-rows.ts";
import { toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue watch
  subagent-queue watch --parent planner-7
  subagent-queue watch --json | jq -c 'select(.type == "agent")'

Without --parent it follows the configured parent and the parents that the verbs
run and start create. With --json: one line per progress event, and
{"type":"agent","agent":{…}} when an agent's status changes; every line names
its parent_id.`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  actingOptions(command, SEEN_PARENT)
    .addHelpText("after", HELP)
    .action(async (flags: ActingFlags) => done(await watch(open("warn"), flags)));
};

/** Runs the command; resolves to 0 when a signal stops it. */
function watch(context: CommandContext, flags: ActingFlags): Promise<number> {
  return actAsParent(context, "watch", flags, async (acting) => {
    const { parent, redis } = acting;
    const { output, clock } = context;
    const isAlone = flags.parent !== undefined;
    if (flags.json) {
      await watchAll(acting, isAlone, (each) => jsonListener(context, each.parentId));
      return EXIT.done;
    }
    const whom = isAlone ? parent.parentId : `${parent.parentId}, run and start`;
    const opening = `Watching ${whom} on ${redis}; Ctrl-C ends the watching, not the agents.`;
    output.note(opening);
    const progress = createProgress(output, clock, {
      rowOf: (event) => event.agent_id,
      tell: (line) => output.result(line),
      empty: "No live agents yet.",
      leavesRows: true,
    });
    progress.start();
    try {
      await watchAll(acting, isAlone, (each) => shownBy(progress, acting, each));
    } finally {
      progress.stop();
    }
    return EXIT.done;
  });
}

/**
 * Watches the parent and, unless `isAlone`, the parents that run and start create for themselves, now or later.
 * Rejects with the first error that is not retryable.
 */
function watchAll(
  acting: ParentSession,
  isAlone: boolean,
  listenerFor: (parent: Parent) => WatchListener,
): Promise<void> {
  const { context, parent } = acting;
  const { clock, signal, logger, output } = context;
  const findOthers = finderOfOthers(acting);
  return watchParents({
    ...{ parent, clock, signal, hasReader: output.delivered },
    find: () =>
      (isAlone ? Promise.resolve([]) : findOthers()).catch((error: unknown) => {
        logger.debug({ problem: messageOf(error) }, "The other parents could not be listed");
        return undefined;
      }),
    listenerFor: (each) =>
      // Only the configured parent's watch reports an unreachable Redis, so that it is printed once.
      each === parent ? listenerFor(each) : { ...listenerFor(each), away: () => {} },
  });
}

/** Returns a search for the recently active parents that run and start created for themselves. */
function finderOfOthers({ context, client, redisNowMs }: ParentSession) {
  const { config, clock } = context;
  const find = parentFinder({
    ...{ client, clock, redisNowMs },
    isWanted: ({ parent_id, tenant }) =>
      tenant === config.tenant && parent_id.startsWith(`${config.parentId}-`),
  });
  return async (): Promise<FoundParent<Parent>[]> =>
    (await find()).map(({ parent_id: parentId, tenant, active_at: activeAt }) => {
      return { parentId, activeAt, open: () => createParent({ parentId, tenant, client }) };
    });
}

function shownBy(
  progress: Progress,
  { context, parent, redisNowMs }: ParentSession,
  { parentId }: Parent,
): WatchListener {
  const { output, clock } = context;
  // Two parents may have agents with the same id, so the row's key has the parent.
  const keyOf = (agentId: string) => (parentId === parent.parentId ? agentId : `${parentId}/${agentId}`);
  return {
    agent(view, isChanged) {
      const ageMs = Math.max(0, redisNowMs() - Date.parse(view.created_at));
      const named = { name: keyOf(view.agent_id), label: view.agent_id };
      progress.put(named.name, (row) => {
        return { ...rowWithView(row, view, { nowMs: clock.monotonicMs(), ageMs }), ...named };
      });
      // A running agent's activity is reported by its events.
      if (isChanged && !output.isLive && view.status !== "running") {
        output.result(`${view.agent_id}: ${view.status}`);
      }
    },
    event: (event) => progress.apply({ ...event, agent_id: keyOf(event.agent_id) }),
    ended(view) {
      progress.drop(keyOf(view.agent_id));
      output.result(endedLine(view, output.resultStyle));
    },
    away: (problem) => output.note(awayLine(problem)),
  };
}

function jsonListener({ output }: CommandContext, parent_id: string): WatchListener {
  const tell = (agent: AgentView) => output.result(toJsonLine({ type: "agent", parent_id, agent }));
  return {
    agent: (view, isChanged) => isChanged && tell(view),
    event: (event) => output.result(toJsonLine({ parent_id, ...event })),
    ended: tell,
    away: (problem) => output.note(problem),
  };
}

const ENDED_AS: Record<EndedReason, ReplyStatus> = {
  completed: "succeeded",
  failed: "failed",
  destroyed: "cancelled",
  idle: "cancelled",
};

/** Returns the line while polls fail: the problem without the advice to call again, because the watch retries. */
export function awayLine(problem: string): string {
  return `${problem.replace(/: nothing was done;.*|\.$/, "")}. Trying again until it is back.`;
}

/** Returns the line about an ended agent: `✔ data_collector  completed · 3 turns · 1,234 tokens · $0`. */
export function endedLine({ agent_id, ended_reason, progress }: AgentView, style: Style): string {
  const { glyph, textStyle } = STATUS_GLYPHS[ended_reason ? ENDED_AS[ended_reason] : "cancelled"];
  const facts = progress
    ? [
        formatPlural(progress.turns, "turn"),
        formatPlural(progress.tokens, "token"),
        formatUsd(progress.cost_usd),
      ]
    : [];
  return [`${style(textStyle, glyph)} ${style("bold", agent_id)}  ${ended_reason ?? "ended"}`, ...facts].join(
    " · ",
  );
}
