/** Tables on a terminal: one aligned line for each row; a narrow terminal has fewer columns, never a cut number. Pure. */
import type { Style } from "./output.ts";
import { cells, cutTo, lineCells, padTo } from "./text.ts";

/** One column of a table. By default it is as wide as its widest cell. */
export interface Column<Row> {
  title: string;
  /** Default: left. */
  align?: "left" | "right";
  text(row: Row): string;
  /** On a narrow terminal the columns with the highest number are left out first; 0 stays. */
  leaves: number;
  /** Fixed width in cells, so that a redrawn table does not jump. */
  width?: number;
  /** Width to which cells are cut before a column is left out, the last column first. Default: no cut. */
  least?: number;
  /** Maximum width, even if there is room. */
  most?: number;
}

const GAP = "  ";

/** Display settings of a table. */
export interface TableView<Row> {
  /** Undefined: no width limit. */
  columns: number | undefined;
  style: Style;
  /** Free text at the end of the line: cut to the room, left out if that is less than `minCells`. */
  last?: LastColumn<Row>;
  /** Text of one cell before each row. */
  mark?(row: Row): string;
}

/** Returns a title and one line for each row; no line wraps. */
export function renderTable<Row>(
  rows: readonly Row[],
  table: readonly Column<Row>[],
  { columns, style, last, mark }: TableView<Row>,
): string[] {
  const room = lineCells(columns) - (mark ? 2 : 0);
  const shown = fitted(
    table.map((column) => measured(column, rows)),
    room,
  );
  const forLast = room - sumOf(shown, ({ width }) => width) - GAP.length;
  const isLast = last !== undefined && forLast >= last.minCells;
  const line = (cell: (column: Column<Row>) => string, end: string) =>
    [
      ...shown.map(({ column, width }) => padTo(cell(column), width, column.align)),
      ...(isLast ? [cutTo(end, forLast)] : []),
    ]
      .join(GAP)
      .trimEnd();
  const title = line((column) => column.title, last?.title ?? "");
  return [
    style("dim", mark ? `  ${title}` : title),
    ...rows.map((row) => {
      const text = line((column) => column.text(row), last?.text(row) ?? "");
      return mark ? `${mark(row)} ${text}` : text;
    }),
  ];
}

/** A column with its preferred and its least width. */
interface Measured<Row> {
  column: Column<Row>;
  width: number;
  least: number;
}

function measured<Row>(column: Column<Row>, rows: readonly Row[]): Measured<Row> {
  const { title, text, most = Number.POSITIVE_INFINITY } = column;
  const widest = rows.reduce((most, row) => Math.max(most, cells(text(row))), cells(title));
  const width = column.width ?? Math.min(widest, most);
  return { column, width, least: Math.min(width, column.least ?? width) };
}

/** Chooses the columns that fit, each as wide as the room allows. */
function fitted<Row>(wanted: readonly Measured<Row>[], room: number): Measured<Row>[] {
  let shown = [...wanted];
  while (sumOf(shown, ({ least }) => least) > room && shown.some(({ column }) => column.leaves > 0)) {
    const leaving = Math.max(...shown.map(({ column }) => column.leaves));
    shown = shown.filter(({ column }) => column.leaves !== leaving);
  }
  const isTight = sumOf(shown, ({ least }) => least) > room;
  let excess = Math.max(0, sumOf(shown, ({ width }) => width) - room);
  return shown
    .reverse()
    .map((each) => {
      // If no more columns can be left out, columns with a `least` width are cut further.
      const least = isTight && each.column.least !== undefined ? 1 : each.least;
      const cut = Math.min(excess, each.width - least);
      excess -= cut;
      return { ...each, width: each.width - cut };
    })
    .reverse();
}

/** Returns the width of the columns side by side, with gaps. */
function sumOf<Row>(shown: readonly Measured<Row>[], pick: (column: Measured<Row>) => number): number {
  return shown.reduce((sum, column) => sum + pick(column) + GAP.length, -GAP.length);
}

/** The free text at the end of each line. */
export interface LastColumn<Row> {
  title: string;
  text(row: Row): string;
  minCells: number;
}
