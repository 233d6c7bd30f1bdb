/** The log on a terminal: one line for each run, lines about turns only at debug level. Pure. */
import { z } from "zod";
import { ReplyStatus } from "../../shared/protocol/reply.ts";
import { jsonIn } from "../../shared/protocol/text.ts";
import { formatDuration, formatPlural, formatUsd } from "./numbers.ts";
import { formatLogLine, type Style } from "./output.ts";
import { STATUS_GLYPHS } from "./progress-rows.ts";
import { cells, cutTo, plainLine } from "./text.ts";

/** A worker's log line about a settled run. */
const RunLine = z.object({
  msg: z.literal("Run"),
  parent_id: z.string(),
  agent_id: z.string(),
  status: ReplyStatus,
  stop_reason: z.string(),
  turns: z.number(),
  tokens: z.number(),
  cost_usd: z.number(),
  ms: z.number(),
});
const TurnLine = z.object({ msg: z.literal("Turn"), uid: z.string(), turn: z.number() });

/** Display settings of a log line. */
export interface LogView {
  columns: number;
  style: Style;
  isDebugging: boolean;
}

/** Returns a log line for a terminal; undefined: a line about a turn, which only debugging shows. */
export function terminalLine(line: string, view: LogView): string | undefined {
  const { style, isDebugging } = view;
  const entry = isDebugging ? undefined : jsonIn(line);
  if (TurnLine.safeParse(entry).success) return undefined;
  const run = RunLine.safeParse(entry).data;
  return run ? runLine(run, view) : formatLogLine(line, style);
}

function runLine(run: z.infer<typeof RunLine>, { columns, style }: LogView): string {
  const { glyph, textStyle } = STATUS_GLYPHS[run.status];
  const ending = run.stop_reason === "end_turn" ? run.status : `${run.status} (${run.stop_reason})`;
  const took = [
    formatPlural(run.turns, "turn"),
    formatPlural(run.tokens, "token"),
    formatUsd(run.cost_usd),
    formatDuration(run.ms),
  ];
  const facts = [plainLine(ending), ...took, `for ${plainLine(run.parent_id)}`].join(" · ");
  const name = cutTo(plainLine(run.agent_id), Math.max(12, Math.floor(columns / 2)));
  const left = columns - 1 - cells(name) - 4;
  return `${style(textStyle, glyph)} ${style("bold", name)}  ${style("dim", cutTo(facts, left))}`;
}
