/** The live view as data: one row for each agent, its change by an event, and its rendering. Pure. */
import type { AgentStatus, AgentView } from "../../shared/protocol/agent.ts";
import type { ProgressEvent, Reply, ReplyStatus } from "../../shared/protocol/reply.ts";
import { formatAge, formatCompact, formatPlural, formatUsd } from "./numbers.ts";
import type { Style, TextStyle } from "./output.ts";
import { type Column, renderTable } from "./table.ts";
import { cells, cutTo, plainLine } from "./text.ts";

/** Status of a row's agent. */
export type RowStatus = Exclude<AgentStatus, "ended"> | ReplyStatus;

/** One agent in the live view. Times are monotonic ms. */
export interface Row {
  name: string;
  /** Text that is shown instead of the name. */
  label?: string;
  status: RowStatus;
  /** Number of the run that the counters belong to, if known. */
  run?: number;
  /** Answers of the run so far: none in its first turn. */
  turns: number;
  maxTurns?: number;
  tokens: number;
  costUsd: number;
  /** Names of the running tools by the id of their call. */
  tools: ReadonlyMap<string, string>;
  /** Its activity while no tool runs. */
  doing: string;
  startedAtMs: number;
  endedAtMs?: number;
}

/** Creates a row for an agent that is being spawned. */
export function newRow(name: string, nowMs: number): Row {
  const nothing = { turns: 0, tokens: 0, costUsd: 0, tools: new Map<string, string>(), doing: "" };
  return { name, status: "queued", ...nothing, startedAtMs: nowMs };
}

/** Returns the row after an event of its agent; an event of a run before the row's run changes nothing. */
export function rowAfter(row: Row, event: ProgressEvent): Row {
  if (isOver(row) || (row.run !== undefined && event.run < row.run)) return row;
  const isNext = row.run !== undefined && event.run > row.run;
  const counted = isNext ? { ...row, run: event.run, turns: 0, tokens: 0, costUsd: 0 } : row;
  const at = { ...counted, turns: Math.max(counted.turns, turnsBy(event)) };
  switch (event.type) {
    case "run_started":
      return { ...at, status: "running", maxTurns: event.max_turns, doing: "starting" };
    case "run_continued":
      return { ...at, status: "running", tools: new Map(), doing: "starting" };
    case "turn_started":
      return { ...at, status: "running", tools: new Map(), doing: "thinking" };
    case "text_delta":
      return { ...at, doing: "writing" };
    case "turn_finished":
      return { ...at, tokens: at.tokens + event.tokens, costUsd: at.costUsd + event.cost_usd, doing: "" };
    case "tool_started":
      return { ...at, tools: new Map(row.tools).set(event.tool_use_id, plainLine(event.tool)) };
    case "tool_finished":
      return { ...at, tools: without(row.tools, event.tool_use_id) };
    case "compacted":
      return { ...at, doing: "summed up" };
    case "model_retry":
      return { ...at, doing: `retry in ${formatAge(event.delay_ms)}` };
    case "worker_lost":
      return { ...at, status: "queued", tools: new Map(), doing: "its worker is gone" };
    case "released":
      return { ...at, status: "queued", tools: new Map(), doing: plainLine(event.reason) };
    case "waiting":
      return { ...at, status: "waiting", tools: new Map(), doing: `asks: ${plainLine(event.question)}` };
    case "waiting_for_tools":
      return { ...at, status: "queued", tools: new Map(), doing: waitsFor(event.tools) };
    case "alert":
    case "ended":
      return at;
  }
}

/** Returns how many turns of its run have an answer, as far as the event tells. */
function turnsBy({ type, turn }: ProgressEvent): number {
  const isBeforeAnswer = type === "turn_started" || type === "text_delta" || type === "model_retry";
  return isBeforeAnswer ? turn - 1 : turn;
}

function rowStatusOf(status: AgentView["status"]): RowStatus {
  if (status === "waiting_for_tools") return "queued";
  return status === "ended" ? "idle" : status;
}

/** Returns the activity of an agent that needs tools no worker has. */
function waitsFor(tools: readonly string[]): string {
  return plainLine(`waits for a worker with ${tools.join(", ")}`);
}

/** Returns the row after the agent's reply. */
export function rowWithReply(row: Row, reply: Reply, nowMs: number): Row {
  const { status, turns, tokens, cost_usd } = reply;
  const doing = reply.stop_reason === "end_turn" ? "" : reply.stop_reason;
  return {
    ...row,
    status,
    turns,
    tokens,
    costUsd: cost_usd,
    tools: new Map(),
    doing,
    endedAtMs: nowMs,
  };
}

/**
 * Returns the row of a live agent from its record. The counters are those that its run has committed; only events report
 * its activity. `ageMs`: time since its spawn.
 */
export function rowWithView(
  row: Row | undefined,
  view: AgentView,
  { nowMs, ageMs }: { nowMs: number; ageMs: number },
): Row {
  const { agent_id, run, progress, limits, questions: [question] = [] } = view;
  const lacksTools = view.status === "waiting_for_tools";
  const status = rowStatusOf(view.status);
  const { turns = 0, tokens = 0, cost_usd: costUsd = 0 } = progress ?? {};
  const same = row?.run === run ? row : undefined;
  const isAtWork = status === "running";
  return {
    name: agent_id,
    status,
    run,
    turns: Math.max(turns, same?.turns ?? 0),
    maxTurns: limits.max_turns,
    tokens,
    costUsd,
    tools: (isAtWork && same?.tools) || new Map(),
    doing: isAtWork || lacksTools ? (same?.doing ?? "") : question ? `asks: ${plainLine(question.text)}` : "",
    startedAtMs: row?.startedAtMs ?? nowMs - ageMs,
  };
}

/** Returns true if the row's agent has replied. */
function isOver(row: Row): boolean {
  return row.endedAtMs !== undefined;
}

/** Returns the activity of a row's agent: its running tools, else `doing`. */
export function activityOf(row: Row): string {
  const names = [...row.tools.values()];
  const [first] = names;
  if (first === undefined) return row.doing;
  if (names.length === 1) return first;
  return names.every((name) => name === first)
    ? `${first} ×${names.length}`
    : `${first} +${names.length - 1}`;
}

/** Glyph of each status. Only the glyph has a colour, so that words stay readable on dark and light backgrounds. */
export const STATUS_GLYPHS: Record<RowStatus, { glyph: string; textStyle: TextStyle }> = {
  idle: { glyph: "·", textStyle: "dim" },
  queued: { glyph: "○", textStyle: "dim" },
  waiting: { glyph: "◔", textStyle: "yellow" },
  running: { glyph: "●", textStyle: "cyan" },
  succeeded: { glyph: "✔", textStyle: "green" },
  partial: { glyph: "◐", textStyle: "yellow" },
  failed: { glyph: "✖", textStyle: "red" },
  cancelled: { glyph: "✖", textStyle: "yellow" },
};

const NAME_MIN_CELLS = 12;
const NAME_MAX_CELLS = 48;
const DOING_MIN_CELLS = 14;
const DOING_MAX_CELLS = 28;
/** A terminal with fewer rows shows one more agent instead of the totals. */
const SUM_MIN_ROWS = 10;

const TURNS: Omit<Column<Row>, "title"> = {
  width: 5,
  align: "right",
  leaves: 1,
  text: (row) => (row.maxTurns ? `${row.turns}/${row.maxTurns}` : row.turns === 0 ? "" : `${row.turns}`),
};

/** Returns columns of fixed width, so that the block does not jump when numbers grow. */
function columnsAt(nowMs: number, longestLabel: number): Column<Row>[] {
  const counted = (row: Row, text: string) => (row.turns === 0 ? "" : text);
  const age = (row: Row) => formatAge((row.endedAtMs ?? nowMs) - row.startedAtMs);
  const name = Math.min(longestLabel, NAME_MAX_CELLS);
  const right = { align: "right", width: 7 } as const;
  return [
    { title: "agent", width: name, least: NAME_MIN_CELLS, leaves: 0, text: labelOf },
    { title: "status", width: 9, leaves: 0, text: (row) => row.status },
    { title: "turns", ...TURNS },
    { title: "tokens", ...right, leaves: 3, text: (row) => counted(row, formatCompact(row.tokens)) },
    { title: "cost", ...right, leaves: 4, text: (row) => counted(row, formatUsd(row.costUsd)) },
    { title: "age", ...right, width: 6, leaves: 2, text: age },
    { title: "doing", width: DOING_MAX_CELLS, least: DOING_MIN_CELLS, leaves: 5, text: activityOf },
  ];
}

/** Terminal size and style of the board. */
export interface BoardView {
  columns: number;
  rows: number;
  nowMs: number;
  style: Style;
  /** Time since which Redis has not answered, monotonic ms; undefined: it answers. */
  awaySinceMs?: number | undefined;
}

/**
 * Returns the board as lines that never wrap: a title and one line for each agent. If the height is too small, running
 * agents are shown first and a last line counts the others. If the width is too small, columns are left out. Totals
 * follow if there are several rows.
 */
export function renderBoard(rows: readonly Row[], view: BoardView): string[] {
  if (rows.length === 0) return [];
  const { style, nowMs, columns } = view;
  const longest = rows.reduce((most, row) => Math.max(most, cells(labelOf(row))), "agent".length);
  const footer = footerOf(rows, view);
  const { shown, hidden } = chosen(rows, Math.max(1, view.rows - 3 - footer.length));
  const mark = ({ status }: Row) => style(STATUS_GLYPHS[status].textStyle, STATUS_GLYPHS[status].glyph);
  const lines = renderTable(shown, columnsAt(nowMs, longest), { columns, style, mark });
  const rest = hidden.length > 0 ? [style("dim", cutTo(restLine(hidden), columns - 1))] : [];
  return [...lines, ...rest, ...footer];
}

function labelOf({ label, name }: Row): string {
  return label ?? name;
}

/** Returns the totals of several rows, and a line if Redis does not answer. */
function footerOf(
  rows: readonly Row[],
  { columns, rows: height, nowMs, style, awaySinceMs }: BoardView,
): string[] {
  const sum = (pick: (row: Row) => number) => rows.reduce((total, row) => total + pick(row), 0);
  const over = rows.filter(isOver).length;
  const facts = [
    `${over} of ${formatPlural(rows.length, "agent")} done`,
    formatPlural(
      sum(({ turns }) => turns),
      "turn",
    ),
    `${formatCompact(sum(({ tokens }) => tokens))} tokens`,
    formatUsd(sum(({ costUsd }) => costUsd)),
  ].join(" · ");
  const away =
    awaySinceMs === undefined
      ? []
      : [`Redis has not answered for ${formatAge(nowMs - awaySinceMs)}: the rows show the last known state.`];
  const dressed = (textStyle: TextStyle, text: string) => style(textStyle, cutTo(`  ${text}`, columns - 1));
  return [
    ...(rows.length > 1 && height >= SUM_MIN_ROWS ? [dressed("dim", facts)] : []),
    ...away.map((text) => dressed("bold", text)),
  ];
}

/** Chooses the rows that fit into `height` lines, in their order; running agents first, ended ones last. */
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
