/** Tables on a terminal: one aligned line a row; a narrow terminal has fewer columns, never a number that was cut. Pure. */
import type { Style } from "./output.ts";
import { cells, cutTo, padTo } from "./text.ts";

/** One column of a table. It is as wide as its widest cell, unless it says otherwise. */
export interface Column<Row> {
  title: string;
  /** Default: left. */
  align?: "left" | "right";
  text(row: Row): string;
  /** Columns with the highest number leave first when the terminal is narrow; 0 stays. */
  leaves: number;
  /** Always so many cells: a table that is redrawn does not jump. */
  width?: number;
  /** Cells are cut down to this before a column leaves, those of the last column first. Default: never. */
  least?: number;
  /** Cells beyond this are cut even where there is room. */
  most?: number;
}

const GAP = "  ";

/** How a table is shown. */
export interface TableView<Row> {
  /** Undefined: as wide as it gets. */
  columns: number | undefined;
  style: Style;
  /** Free text that is cut at the end of the line, and left out where fewer than `minCells` are left for it. */
  last?: LastColumn<Row>;
  /** One cell in front of each row. */
  mark?(row: Row): string;
}

/** A title and one line a row; no line wraps. */
export function renderTable<Row>(
  rows: readonly Row[],
  table: readonly Column<Row>[],
  { columns, style, last, mark }: TableView<Row>,
): string[] {
  // The last cell of a line stays empty: some terminals wrap as soon as it is written.
  const room = columns === undefined ? Number.POSITIVE_INFINITY : columns - 1 - (mark ? 2 : 0);
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

/** A column with the cells it wants, and the fewest it can do with. */
interface Measured<Row> {
  column: Column<Row>;
  width: number;
  least: number;
}

function measured<Row>(column: Column<Row>, rows: readonly Row[]): Measured<Row> {
  const { title, text, most = Number.POSITIVE_INFINITY } = column;
  const widest = Math.max(cells(title), ...rows.map((row) => cells(text(row))));
  const width = column.width ?? Math.min(widest, most);
  return { column, width, least: Math.min(width, column.least ?? width) };
}

/** The columns that stay, each as wide as the room allows. */
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
      // Where no more columns can leave, what can be cut is cut further.
      const least = isTight && each.column.least !== undefined ? 1 : each.least;
      const cut = Math.min(excess, each.width - least);
      excess -= cut;
      return { ...each, width: each.width - cut };
    })
    .reverse();
}

/** What columns take side by side. */
function sumOf<Row>(shown: readonly Measured<Row>[], pick: (column: Measured<Row>) => number): number {
  return shown.reduce((sum, column) => sum + pick(column) + GAP.length, -GAP.length);
}

/** The free text at the end of each line. */
export interface LastColumn<Row> {
  title: string;
  text(row: Row): string;
  minCells: number;
}
