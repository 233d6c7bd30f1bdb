/** `list`: shows the live agents of a parent, and those of run and start. */
import type { AgentView } from "../../shared/protocol/agent.ts";
import { unlessAborted } from "../../shared/stop-signal.ts";
import {
  type ActingFlags,
  actAsParent,
  actingOptions,
  noteQueuedWithoutWorker,
  SEEN_PARENT,
} from "../as-parent.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { renderProviderWait } from "../local/wait.ts";
import { formatAge, formatCount, formatUsd } from "../terminal/numbers.ts";
import type { Style } from "../terminal/output.ts";
import { type Column, renderTable } from "../terminal/table.ts";
import { cutTo, lineCells, plainLine, toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue list
  subagent-queue list --parent planner-7 --json | jq -r '.sub_agents[].agent_id'

Without --parent: the agents of the configured parent and of every parent that the
verbs run and start created. The other verbs find those with --parent.`;

/** An agent with its parent: two parents may have agents with the same id. */
export interface ListedAgent extends AgentView {
  parent_id: string;
}

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  actingOptions(command, SEEN_PARENT)
    .addHelpText("after", HELP)
    .action(async (flags: ActingFlags) => done(await list(open("warn"), flags)));
};

/** Runs the command. It does not extend the life of an idle agent. */
function list(context: CommandContext, flags: ActingFlags): Promise<number> {
  return actAsParent(context, "list", flags, async (acting) => {
    const { parent, others, redisNowMs } = acting;
    const lists = await unlessAborted(
      context.signal,
      Promise.all(
        [parent, ...others].map(async (each) =>
          (await each.list()).map((agent): ListedAgent => ({ parent_id: each.parentId, ...agent })),
        ),
      ),
    );
    const agents = lists.flat();
    noteQueuedWithoutWorker(acting, agents);
    const own = parent.parentId;
    const { output } = context;
    const { resultColumns, resultStyle } = output;
    if (flags.json) output.result(toJsonLine({ sub_agents: agents }));
    else if (agents.length > 0)
      output.result([
        ...renderAgents(agents, { own, nowMs: redisNowMs(), columns: resultColumns, style: resultStyle }),
        ...renderWaits(agents, { own, columns: resultColumns, style: resultStyle }),
      ]);
    else output.note(`${own} has no live agents.`);
    return EXIT.done;
  });
}

/** Display settings of the list. `own`: the configured parent; the others are named. `columns` undefined: no width limit. */
export interface ListView {
  own: string;
  columns: number | undefined;
  style: Style;
}

/** Returns what the agents wait for, one line each: their open questions and their provider. */
export function renderWaits(agents: readonly ListedAgent[], { own, columns, style }: ListView): string[] {
  const room = lineCells(columns);
  return agents.flatMap(({ parent_id, agent_id, questions = [], provider_wait }) => {
    const who = parent_id === own ? agent_id : `${parent_id}/${agent_id}`;
    const lines = questions.map(({ text }) => `${who} asks: ${plainLine(text)}`);
    if (provider_wait) lines.push(`${who} waits: ${renderProviderWait(provider_wait)}`);
    return lines.map((line) => style("yellow", cutTo(line, room)));
  });
}

const NAME_MIN_CELLS = 8;
const PARENT: Column<ListedAgent> = {
  title: "parent",
  leaves: 0,
  least: 16,
  text: ({ parent_id }) => parent_id,
};

/**
 * Returns the table of agents, with their parents unless all are of `own`. On a narrow terminal the name is cut or left
 * out, then columns one by one.
 */
export function renderAgents(
  agents: readonly ListedAgent[],
  { own, nowMs, columns, style }: ListView & { nowMs: number },
): string[] {
  const isOfOthers = agents.some(({ parent_id }) => parent_id !== own);
  const table: Column<ListedAgent>[] = [
    ...(isOfOthers ? [PARENT] : []),
    { title: "agent id", leaves: 0, text: ({ agent_id }) => agent_id },
    { title: "status", leaves: 0, text: ({ status }) => status },
    { title: "run", align: "right", leaves: 3, text: ({ run }) => String(run) },
    {
      title: "turns",
      align: "right",
      leaves: 1,
      text: ({ progress, limits }) => `${progress?.turns ?? 0}/${limits.max_turns}`,
    },
    {
      title: "tokens",
      align: "right",
      leaves: 4,
      text: ({ progress }) => formatCount(progress?.tokens ?? 0),
    },
    { title: "cost", align: "right", leaves: 5, text: ({ progress }) => formatUsd(progress?.cost_usd ?? 0) },
    {
      title: "age",
      align: "right",
      leaves: 2,
      text: ({ created_at }) => formatAge(nowMs - Date.parse(created_at)),
    },
  ];
  const last = { title: "name", text: ({ name }: ListedAgent) => plainLine(name), minCells: NAME_MIN_CELLS };
  return renderTable(agents, table, { columns, style, last });
}
