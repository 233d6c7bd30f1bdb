/** `list`: the live agents of a parent. */
import type { AgentView } from "../shared/protocol/agent.ts";
import { type ActingFlags, actAsParent } from "./acting.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { formatAge, formatCount, formatUsd } from "./figures.ts";
import { toJsonLine } from "./json.ts";
import type { Style } from "./style.ts";
import { cells, cutTo, padTo, plainLine } from "./text.ts";

/** Runs the command. Looking never keeps an idle agent alive. */
export function list(context: CommandContext, flags: ActingFlags): Promise<number> {
  return actAsParent(context, "list", flags, async ({ parent }) => {
    const agents = await parent.list();
    const { output, clock } = context;
    const { resultColumns, resultStyle } = output;
    if (flags.json) output.result(toJsonLine({ sub_agents: agents }));
    else if (agents.length > 0)
      output.result(...renderAgents(agents, clock.now(), resultColumns, resultStyle));
    else output.note(`${parent.parentId} has no live agents.`);
    return EXIT.done;
  });
}

interface Column {
  title: string;
  align: "left" | "right";
  text(agent: AgentView, nowMs: number): string;
}

const COLUMNS: readonly Column[] = [
  { title: "agent id", align: "left", text: (agent) => agent.agent_id },
  { title: "status", align: "left", text: (agent) => agent.status },
  { title: "run", align: "right", text: (agent) => String(agent.run) },
  {
    title: "turn",
    align: "right",
    text: ({ progress, limits }) => `${progress?.turns ?? 0}/${limits.max_turns}`,
  },
  { title: "tokens", align: "right", text: ({ progress }) => formatCount(progress?.tokens ?? 0) },
  { title: "cost", align: "right", text: ({ progress }) => formatUsd(progress?.cost_usd ?? 0) },
  { title: "age", align: "right", text: (agent, nowMs) => formatAge(nowMs - Date.parse(agent.created_at)) },
  { title: "name", align: "left", text: (agent) => plainLine(agent.name) },
];

/** A table with one line an agent; `columns` undefined: nothing is cut. */
export function renderAgents(
  agents: readonly AgentView[],
  nowMs: number,
  columns: number | undefined,
  style: Style,
): string[] {
  const table = COLUMNS.map(({ title, align, text }) => {
    const column = [title, ...agents.map((agent) => text(agent, nowMs))];
    const width = Math.max(...column.map(cells));
    return column.map((cell) => padTo(cell, width, align));
  });
  const width = columns === undefined ? Number.POSITIVE_INFINITY : columns - 1;
  const line = (row: number) =>
    cutTo(
      table
        .map((column) => column[row])
        .join("  ")
        .trimEnd(),
      width,
    );
  return [style("dim", line(0)), ...agents.map((_, index) => line(index + 1))];
}
