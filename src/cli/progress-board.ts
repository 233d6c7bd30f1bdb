/** The live view as data: one row an agent, what an event does to it, and the lines that show it. Pure. */

import type { AgentStatus, AgentView } from "../shared/protocol/agent.ts";
import type { ProgressEvent } from "../shared/protocol/event.ts";
import type { Reply, ReplyStatus } from "../shared/protocol/reply.ts";
import { formatAge, formatCompact, formatPlural, formatUsd } from "./figures.ts";
import type { Look, Style } from "./style.ts";
import { cells, cutTo, padTo, plainLine } from "./text.ts";

/** Where a row's agent stands. */
export type RowStatus = Exclude<AgentStatus, "ended"> | ReplyStatus;

/** One agent on the board. Times are monotonic ms. */
export interface Row {
  name: string;
  status: RowStatus;
  /** Number of the run that the counters belong to, where it is known. */
  run?: number;
  turn: number;
  maxTurns?: number;
  tokens: number;
  costUsd: number;
  /** Tools at work, by the id of their call. */
  tools: ReadonlyMap<string, string>;
  /** What it does while no tool is at work. */
  doing: string;
  startedAtMs: number;
  endedAtMs?: number;
}

/** A row for an agent that has just been asked for. */
export function newRow(name: string, nowMs: number): Row {
  const nothing = { turn: 0, tokens: 0, costUsd: 0, tools: new Map<string, string>(), doing: "" };
  return { name, status: "queued", ...nothing, startedAtMs: nowMs };
}

/** The row after an event of its agent; one of an earlier run, which a look has overtaken, changes nothing. */
export function rowAfter(row: Row, event: ProgressEvent): Row {
  if (isOver(row) || (row.run !== undefined && event.run < row.run)) return row;
  const isNext = row.run !== undefined && event.run > row.run;
  const counted = isNext ? { ...row, run: event.run, turn: 0, tokens: 0, costUsd: 0 } : row;
  const at = { ...counted, turn: Math.max(counted.turn, event.turn) };
  switch (event.type) {
    case "run_started":
      return { ...at, status: "running", maxTurns: event.max_turns, doing: "starting" };
    case "turn_started":
      return { ...at, status: "running", tools: new Map(), doing: "thinking" };
    case "text_delta":
      return { ...at, doing: "writing" };
    case "turn_finished":
      return { ...at, tokens: at.tokens + event.tokens, costUsd: at.costUsd + event.cost_usd, doing: "" };
    case "tool_started":
      return { ...at, tools: new Map(row.tools).set(event.tool_use_id, event.tool) };
    case "tool_finished":
      return { ...at, tools: without(row.tools, event.tool_use_id) };
    case "model_retry":
      return { ...at, doing: `retry in ${formatAge(event.delay_ms)}` };
    case "released":
      return { ...at, status: "queued", tools: new Map(), doing: event.reason };
    case "waiting":
      return { ...at, status: "waiting", tools: new Map(), doing: `asks: ${plainLine(event.question)}` };
    case "alert":
    case "ended":
      return at;
  }
}

/** The row of an agent whose reply has come. */
export function rowWithReply(row: Row, reply: Reply, nowMs: number): Row {
  const { status, turns, tokens, cost_usd } = reply;
  const doing = reply.stop_reason === "end_turn" ? "" : reply.stop_reason;
  return {
    ...row,
    status,
    turn: turns,
    tokens,
    costUsd: cost_usd,
    tools: new Map(),
    doing,
    endedAtMs: nowMs,
  };
}

/**
 * The row of a live agent as a look at it showed it: counters are what its run has committed; what it is doing only
 * events tell. `ageMs`: how long ago it was spawned.
 */
export function rowWithView(
  row: Row | undefined,
  view: AgentView,
  { nowMs, ageMs }: { nowMs: number; ageMs: number },
): Row {
  const { agent_id, run, progress, limits, questions: [question] = [] } = view;
  const status = view.status === "ended" ? "idle" : view.status;
  const { turns = 0, tokens = 0, cost_usd: costUsd = 0 } = progress ?? {};
  const same = row?.run === run ? row : undefined;
  const isAtWork = status === "running";
  return {
    name: agent_id,
    status,
    run,
    turn: Math.max(turns, same?.turn ?? 0),
    maxTurns: limits.max_turns,
    tokens,
    costUsd,
    tools: (isAtWork && same?.tools) || new Map(),
    doing: isAtWork ? (same?.doing ?? "") : question ? `asks: ${plainLine(question.text)}` : "",
    startedAtMs: row?.startedAtMs ?? nowMs - ageMs,
  };
}

/** Whether nothing more will come from a row's agent. */
function isOver(row: Row): boolean {
  return row.endedAtMs !== undefined;
}

/** What a row's agent is doing: its tools, or a word. */
export function activityOf(row: Row): string {
  const names = [...row.tools.values()];
  const [first] = names;
  if (first === undefined) return row.doing;
  if (names.length === 1) return first;
  return names.every((name) => name === first)
    ? `${first} ×${names.length}`
    : `${first} +${names.length - 1}`;
}

/** How each status looks. Only the glyph wears the colour: words stay readable on dark and on light. */
export const STATUS_LOOK: Record<RowStatus, { glyph: string; look: Look }> = {
  idle: { glyph: "·", look: "dim" },
  queued: { glyph: "○", look: "dim" },
  waiting: { glyph: "◔", look: "yellow" },
  running: { glyph: "●", look: "cyan" },
  succeeded: { glyph: "✔", look: "green" },
  partial: { glyph: "◐", look: "yellow" },
  failed: { glyph: "✖", look: "red" },
  cancelled: { glyph: "✖", look: "yellow" },
};

interface Column {
  title: string;
  width: number;
  align: "left" | "right";
  text(row: Row, nowMs: number): string;
  /** Columns with the highest number leave first when the terminal is narrow; 0 stays. */
  leaves: number;
}

const NAME_MIN_CELLS = 12;
const NAME_MAX_CELLS = 48;
const DOING_MIN_CELLS = 14;
const DOING_MAX_CELLS = 28;
const GAP = "  ";

const status: Column = { title: "status", width: 9, align: "left", leaves: 0, text: (row) => row.status };
const measures: Column[] = [
  {
    title: "turn",
    width: 5,
    align: "right",
    leaves: 1,
    text: (row) => (row.turn === 0 ? "" : row.maxTurns ? `${row.turn}/${row.maxTurns}` : `${row.turn}`),
  },
  {
    title: "tokens",
    width: 7,
    align: "right",
    leaves: 3,
    text: (row) => (row.turn === 0 ? "" : formatCompact(row.tokens)),
  },
  {
    title: "cost",
    width: 7,
    align: "right",
    leaves: 4,
    text: (row) => (row.turn === 0 ? "" : formatUsd(row.costUsd)),
  },
  {
    title: "age",
    width: 6,
    align: "right",
    leaves: 2,
    text: (row, nowMs) => formatAge((row.endedAtMs ?? nowMs) - row.startedAtMs),
  },
];
const doing: Column = { title: "doing", width: DOING_MIN_CELLS, align: "left", leaves: 5, text: activityOf };

/** The size of the terminal and how to dress the board. */
export interface BoardView {
  columns: number;
  rows: number;
  nowMs: number;
  style: Style;
}

/**
 * The board as lines that never wrap: a title and one line an agent. What does not fit in height is counted in a
 * last line, those at work first; what does not fit in width leaves column by column.
 */
export function renderBoard(rows: readonly Row[], view: BoardView): string[] {
  if (rows.length === 0) return [];
  // The last cell of a line stays empty: some terminals wrap as soon as it is written.
  const { name, columns } = layout(rows, view.columns - 1);
  const line = (glyph: string, label: string, cell: (column: Column) => string) =>
    [`${glyph} ${padTo(label, name)}`, ...columns.map(cell)].join(GAP).trimEnd();
  const title = line(" ", "agent", (column) => padTo(column.title, column.width, column.align));
  const { shown, hidden } = chosen(rows, Math.max(1, view.rows - 3));
  const lines = shown.map((row) => {
    const { glyph, look } = STATUS_LOOK[row.status];
    const cell = (column: Column) => padTo(column.text(row, view.nowMs), column.width, column.align);
    return line(view.style(look, glyph), row.name, cell);
  });
  const rest = hidden.length > 0 ? [view.style("dim", cutTo(restLine(hidden), view.columns - 1))] : [];
  return [view.style("dim", title), ...lines, ...rest];
}

function layout(rows: readonly Row[], width: number): { name: number; columns: Column[] } {
  const longest = Math.max("agent".length, ...rows.map((row) => cells(row.name)));
  const wanted = Math.min(longest, NAME_MAX_CELLS);
  let columns = [status, ...measures, doing];
  const taken = () => columns.reduce((sum, column) => sum + GAP.length + column.width, 2);
  while (columns.length > 1 && width - taken() < Math.min(wanted, NAME_MIN_CELLS)) {
    const leaving = Math.max(...columns.map((column) => column.leaves));
    columns = columns.filter((column) => column.leaves !== leaving || column.leaves === 0);
  }
  const name = Math.max(1, Math.min(wanted, width - taken()));
  const spare = Math.min(width - taken() - name, DOING_MAX_CELLS - DOING_MIN_CELLS);
  columns = columns.map((column) =>
    column === doing ? { ...doing, width: DOING_MIN_CELLS + spare } : column,
  );
  return { name, columns };
}

/** The rows that fit into `height` lines in their order: those at work before those that are over or queued. */
function chosen(rows: readonly Row[], height: number): { shown: Row[]; hidden: Row[] } {
  if (rows.length <= height) return { shown: [...rows], hidden: [] };
  const rank = (row: Row) => (isOver(row) ? 2 : row.status === "running" ? 0 : 1);
  const best = new Set([...rows].sort((a, b) => rank(a) - rank(b)).slice(0, height - 1));
  return { shown: rows.filter((row) => best.has(row)), hidden: rows.filter((row) => !best.has(row)) };
}

function restLine(hidden: readonly Row[]): string {
  const over = hidden.filter(isOver).length;
  return `  and ${formatPlural(hidden.length, "more agent")}, ${over} of them done`;
}

function without(tools: ReadonlyMap<string, string>, id: string): ReadonlyMap<string, string> {
  return new Map([...tools].filter(([key]) => key !== id));
}
