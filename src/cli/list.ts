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
      output.result(
        ...renderAgents(agents, clock.now(), resultColumns, resultStyle),
        ...renderQuestions(agents, resultColumns, resultStyle),
      );
    else output.note(`${parent.parentId} has no live agents.`);
    return EXIT.done;
  });
}

/** What the waiting ones ask, one line a question. */
export function renderQuestions(
  agents: readonly AgentView[],
  columns: number | undefined,
  style: Style,
): string[] {
  const room = columns === undefined ? Number.POSITIVE_INFINITY : columns - 1;
  return agents.flatMap(({ agent_id, questions = [] }) =>
    questions.map(({ text }) => style("yellow", cutTo(`${agent_id} asks: ${plainLine(text)}`, room))),
  );
}

interface Column {
  title: string;
  align: "left" | "right";
  text(agent: AgentView, nowMs: number): string;
  /** Columns with the highest number leave first when the terminal is narrow; 0 stays. */
  leaves: number;
}

const NAME_MIN_CELLS = 8;
const GAP = "  ";

const COLUMNS: readonly Column[] = [
  { title: "agent id", align: "left", leaves: 0, text: (agent) => agent.agent_id },
  { title: "status", align: "left", leaves: 0, text: (agent) => agent.status },
  { title: "run", align: "right", leaves: 3, text: (agent) => String(agent.run) },
  {
    title: "turn",
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
    text: (agent, nowMs) => formatAge(nowMs - Date.parse(agent.created_at)),
  },
];

/**
 * A table with one line an agent; `columns` undefined: as wide as it gets. On a narrow terminal the name is cut or left
 * out, then columns leave one by one: a number or an id that was cut would be a wrong one.
 */
export function renderAgents(
  agents: readonly AgentView[],
  nowMs: number,
  columns: number | undefined,
  style: Style,
): string[] {
  const room = columns === undefined ? Number.POSITIVE_INFINITY : columns - 1;
  let table = COLUMNS.map(({ title, align, text, leaves }) => {
    const column = [title, ...agents.map((agent) => text(agent, nowMs))];
    const width = Math.max(...column.map(cells));
    return { leaves, width, lines: column.map((cell) => padTo(cell, width, align)) };
  });
  const taken = () => table.reduce((sum, { width }) => sum + width + GAP.length, -GAP.length);
  for (let leaving = 5; leaving > 0 && taken() > room; leaving -= 1) {
    table = table.filter(({ leaves }) => leaves !== leaving);
  }
  const forName = room - taken() - GAP.length;
  const names = ["name", ...agents.map((agent) => plainLine(agent.name))];
  const line = (row: number) => {
    const shown = table.map(({ lines }) => lines[row] ?? "");
    if (forName >= NAME_MIN_CELLS) shown.push(cutTo(names[row] ?? "", forName));
    return shown.join(GAP).trimEnd();
  };
  return [style("dim", line(0)), ...agents.map((_, index) => line(index + 1))];
}
