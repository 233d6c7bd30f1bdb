/** `list`: shows the live agents of a parent. */
import type { AgentView } from "../../shared/protocol/agent.ts";
import { type ActingFlags, actAsParent, actingOptions } from "../as-parent.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { formatAge, formatCount, formatUsd } from "../terminal/numbers.ts";
import type { Style } from "../terminal/output.ts";
import { type Column, renderTable } from "../terminal/table.ts";
import { cutTo, plainLine, toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue list
  subagent-queue list --parent planner-7 --json | jq -r '.sub_agents[].agent_id'`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  actingOptions(command)
    .addHelpText("after", HELP)
    .action(async (flags: ActingFlags) => done(await list(open("warn"), flags)));
};

/** Runs the command. It does not extend the life of an idle agent. */
function list(context: CommandContext, flags: ActingFlags): Promise<number> {
  return actAsParent(context, "list", flags, async ({ parent, others }) => {
    const lists = await Promise.all([parent, ...others].map((each) => each.list()));
    const agents = lists.flat();
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

/** Returns the open questions of the agents, one line each. */
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

const NAME_MIN_CELLS = 8;

/** Returns the table of agents. On a narrow terminal the name is cut or left out, then columns one by one. */
export function renderAgents(
  agents: readonly AgentView[],
  nowMs: number,
  columns: number | undefined,
  style: Style,
): string[] {
  const table: Column<AgentView>[] = [
    { title: "agent id", leaves: 0, text: ({ agent_id }) => agent_id },
    { title: "status", leaves: 0, text: ({ status }) => status },
    { title: "run", align: "right", leaves: 3, text: ({ run }) => String(run) },
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
      text: ({ created_at }) => formatAge(nowMs - Date.parse(created_at)),
    },
  ];
  const last = { title: "name", text: ({ name }: AgentView) => plainLine(name), minCells: NAME_MIN_CELLS };
  return renderTable(agents, table, { columns, style, last });
}
