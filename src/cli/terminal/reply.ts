/** A reply as text for people: agent, status, summary, and usage. Pure. */
import {
  type ChannelEntry,
  type Interim,
  type Question,
  type Reply,
  unreadNote,
} from "../../shared/protocol/reply.ts";
import { formatCount, formatDuration, formatPlural, formatReached, formatUsd } from "./numbers.ts";
import type { Style } from "./output.ts";
import { STATUS_GLYPHS } from "./progress-rows.ts";
import { cells, cutTo, lineCells, plain, plainLine, wrap } from "./text.ts";

const INDENT = "  ";
const WIDEST_TEXT_CELLS = 100;
const QUESTION_MAX_CELLS = 200;

/** End of a question: answered (its agent goes on), or over (its agent has ended). */
export type QuestionEnd = "answered" | "over";

/** Display settings of a reply. `columns` undefined: unwrapped, for a file or a pipe. */
export interface ReplyView {
  columns: number | undefined;
  style: Style;
  /** The prompt, if it differs from the name. */
  question?: string;
  /** True: the agent's id follows its name. */
  showsId?: boolean;
  /** Reason why a question needs no answer any more; absent: it is open. */
  closed?: QuestionEnd;
}

/** Returns the lines of one entry of the reply channel, with the agent's id; the last one is empty. */
export function renderEntry(entry: ChannelEntry, view: ReplyView): string[] {
  if (entry.kind === "message") return renderInterim(entry, view);
  if (entry.kind === "question") return renderQuestion(entry, view);
  return renderReply(entry, { ...view, showsId: true });
}

/** Returns in a line which question it is, until when it can be answered, and its default. `closed`: why it cannot be. */
export function questionFacts(
  { question_id, default_answer, answer_by }: Pick<Question, "question_id" | "default_answer" | "answer_by">,
  closed?: string,
): string {
  const fallback = default_answer === undefined ? "" : `, by default: ${plainLine(default_answer)}`;
  return `question ${plainLine(question_id)} · ${closed ?? `answer by ${plainLine(answer_by)}${fallback}`}`;
}

function renderQuestion(question: Question, { columns, style, closed }: ReplyView): string[] {
  const { name, agent_id, text } = question;
  const label = cutTo(`${plainLine(name)} (${plainLine(agent_id)})`, nameCellsOf(columns, "question"));
  const facts = questionFacts(question, closed);
  return [
    `${style(closed ? "dim" : "yellow", "?")} ${style("bold", label)}  question`,
    ...bodyLines(plain(text).trim(), columns),
    ...bodyLines(facts, columns).map((line) => style("dim", line)),
    "",
  ];
}

function renderInterim({ name, agent_id, text }: Interim, { columns, style }: ReplyView): string[] {
  const label = cutTo(`${plainLine(name)} (${plainLine(agent_id)})`, nameCellsOf(columns, "message"));
  return [
    `${style("cyan", "✉")} ${style("bold", label)}  message`,
    ...bodyLines(plain(text).trim(), columns),
    "",
  ];
}

/** Returns the answer of a reply: its output as indented JSON, else its summary. */
export function answerOf({ output, summary }: Pick<Reply, "output" | "summary">): string {
  return output === undefined ? summary : JSON.stringify(output, undefined, 2);
}

/** Returns the lines of one reply; the last one is empty. */
export function renderReply(reply: Reply, { columns, style, question, showsId }: ReplyView): string[] {
  const { glyph, textStyle } = STATUS_GLYPHS[reply.status];
  const ending = reply.stop_reason === "end_turn" ? reply.status : `${reply.status} (${reply.stop_reason})`;
  const body = (text: string) => bodyLines(text, columns);
  const label = showsId ? `${plainLine(reply.name)} (${plainLine(reply.agent_id)})` : plainLine(reply.name);
  return [
    `${style(textStyle, glyph)} ${style("bold", cutTo(label, nameCellsOf(columns, ending)))}  ${ending}`,
    ...(question
      ? body(cutTo(plainLine(question), QUESTION_MAX_CELLS)).map((line) => style("dim", line))
      : []),
    ...body(plain(answerOf(reply)).trim()),
    ...(reply.error ? body(plainLine(reply.error)).map((line) => style("red", line)) : []),
    ...reply.alerts.map(({ kind, value, threshold }) => {
      const [reached, at] = [formatReached(kind, value), formatReached(kind, threshold)];
      return style("bold", `${INDENT}alert: ${kind} reached ${reached} (threshold ${at})`);
    }),
    ...body(unreadNote(reply.undelivered)).map((line) => style("yellow", line)),
    ...(reply.unknown_tools
      ? body(`without ${reply.unknown_tools.map(plainLine).join(", ")}: its worker has no such tool`).map(
          (line) => style("yellow", line),
        )
      : []),
    ...body(factsOf(reply)).map((line) => style("dim", line)),
    "",
  ];
}

type Spent = Pick<Reply, "turns" | "tokens" | "cost_usd">;

/** Display settings of the totals. `spent`: usage of the whole command, if the replies do not have all of it. */
export interface TotalsView {
  asked: number;
  elapsedMs: number;
  columns: number;
  style: Style;
  spent?: Spent;
}

function sumOf(replies: readonly Spent[]): Spent {
  const add = (sum: Spent, { turns, tokens, cost_usd }: Spent) => ({
    turns: sum.turns + turns,
    tokens: sum.tokens + tokens,
    cost_usd: sum.cost_usd + cost_usd,
  });
  return replies.reduce(add, { turns: 0, tokens: 0, cost_usd: 0 });
}

/** Returns the totals of a command: `3 of 3 succeeded · 9 turns · …`, in two lines if one is too long. */
export function renderTotals(
  replies: readonly Reply[],
  { asked, elapsedMs, columns, style, spent }: TotalsView,
): string[] {
  const { turns, tokens, cost_usd } = spent ?? sumOf(replies);
  const succeeded = replies.filter((reply) => reply.status === "succeeded").length;
  const facts = [
    formatPlural(turns, "turn"),
    formatPlural(tokens, "token"),
    formatUsd(cost_usd),
    formatDuration(elapsedMs),
  ].join(" · ");
  const head = `${succeeded} of ${asked} succeeded`;
  if (cells(head) + cells(facts) + 3 < columns)
    return [`${style("bold", head)} ${style("dim", `· ${facts}`)}`];
  return [style("bold", head), style("dim", `${INDENT}${facts}`)];
}

function factsOf(reply: Reply): string {
  const tools = Object.entries(reply.tools_called).map(
    ([name, count]) => `${plainLine(name)} ×${formatCount(count)}`,
  );
  return [
    formatPlural(reply.turns, "turn"),
    formatPlural(reply.tokens, "token"),
    formatUsd(reply.cost_usd),
    formatDuration(reply.duration_ms),
    tools.length > 0 ? tools.join(", ") : "no tools",
    ...(reply.truncated && reply.output === undefined ? ["text shortened"] : []),
  ].join(" · ");
}

/** Returns the cells that the name may take before `ending`. */
function nameCellsOf(columns: number | undefined, ending: string): number {
  return lineCells(columns) - ending.length - 4;
}

function bodyLines(text: string, columns: number | undefined): string[] {
  if (text === "") return [];
  const width = lineCells(columns, WIDEST_TEXT_CELLS);
  return wrap(text, width - INDENT.length).map((line) => (line === "" ? "" : INDENT + line));
}
