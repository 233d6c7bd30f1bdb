/** `watch`: the live agents of a parent at work, until Ctrl-C; it ends none of them. */
import type { AgentView, EndedReason } from "../shared/protocol/agent.ts";
import type { ReplyStatus } from "../shared/protocol/reply.ts";
import { type Acting, type ActingFlags, actAsParent } from "./acting.ts";
import { type WatchListener, watchAgents } from "./agent-watch.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { formatPlural, formatUsd } from "./figures.ts";
import { toJsonLine } from "./json.ts";
import { createProgress, type Progress } from "./progress.ts";
import { rowWithView, STATUS_LOOK } from "./progress-board.ts";
import type { Style } from "./style.ts";
import { wrap } from "./text.ts";

/** Runs the command; resolves with 0 when it is told to stop. */
export function watch(context: CommandContext, flags: ActingFlags): Promise<number> {
  return actAsParent(context, "watch", flags, async (acting) => {
    const { parent, redis } = acting;
    const { output, clock, signal } = context;
    if (flags.json) {
      await watchAgents(parent, clock, signal, jsonListener(context));
      return EXIT.done;
    }
    const opening = `Watching ${parent.parentId} on ${redis}; Ctrl-C ends the watching only.`;
    output.note(...wrap(opening, output.size.columns - 1));
    const progress = createProgress(output, clock, {
      rowOf: (event) => event.agent_id,
      tell: (line) => output.result(line),
      empty: "No live agents yet.",
    });
    progress.start();
    try {
      await watchAgents(parent, clock, signal, shownBy(progress, acting));
    } finally {
      progress.stop();
    }
    return EXIT.done;
  });
}

function shownBy(progress: Progress, { context }: Acting): WatchListener {
  const { output, clock } = context;
  return {
    agent(view, isChanged) {
      const ageMs = clock.now() - Date.parse(view.created_at);
      progress.put(view.agent_id, (row) => rowWithView(row, view, { nowMs: clock.monotonicMs(), ageMs }));
      // What a running agent does is told by its events.
      if (isChanged && !output.isLive && view.status !== "running") {
        output.result(`${view.agent_id}: ${view.status}`);
      }
    },
    event: progress.apply,
    ended(view) {
      progress.drop(view.agent_id);
      output.result(endedLine(view, output.resultStyle));
    },
    away: (problem) => output.note(...wrap(awayLine(problem), output.size.columns - 1)),
  };
}

function jsonListener({ output }: CommandContext): WatchListener {
  const tell = (agent: AgentView) => output.result(toJsonLine({ type: "agent", agent }));
  return {
    agent: (view, isChanged) => isChanged && tell(view),
    event: (event) => output.result(toJsonLine(event)),
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

/** What is said while looks fail: the problem without the advice to call again, which watching does by itself. */
export function awayLine(problem: string): string {
  return `${problem.replace(/: nothing was done;.*|\.$/, "")}. Looking again until it is back.`;
}

/** What is said about an agent that has ended: `✔ data_collector  completed · 3 turns · 1,234 tokens · $0`. */
export function endedLine({ agent_id, ended_reason, progress }: AgentView, style: Style): string {
  const { glyph, look } = STATUS_LOOK[ended_reason ? ENDED_AS[ended_reason] : "cancelled"];
  const facts = progress
    ? [
        formatPlural(progress.turns, "turn"),
        formatPlural(progress.tokens, "token"),
        formatUsd(progress.cost_usd),
      ]
    : [];
  return [`${style(look, glyph)} ${style("bold", agent_id)}  ${ended_reason ?? "ended"}`, ...facts].join(
    " · ",
  );
}
