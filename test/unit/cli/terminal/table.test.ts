import { expect, test } from "vitest";
import { createStyle } from "../../../../src/cli/terminal/output.ts";
import { type Column, renderTable } from "../../../../src/cli/terminal/table.ts";

interface Row {
  id: string;
  count: string;
  words: string;
}
const rows: Row[] = [
  { id: "abc", count: "12345", words: "words of the first row" },
  { id: "d", count: "6", words: "more" },
];
const id: Column<Row> = { title: "id", leaves: 0, text: (row) => row.id };
const count: Column<Row> = { title: "count", align: "right", leaves: 1, text: (row) => row.count };
const last = { title: "what for", text: (row: Row) => row.words, minCells: 8 };
const style = createStyle(false);
const table = (columns: number | undefined, shown: Column<Row>[], more: object = {}) =>
  renderTable(rows, shown, { columns, style, ...more });

test("the free text at the end is cut to the room, and left out where it would have less than its least", () => {
  expect(table(undefined, [id, count], { last })).toEqual([
    "id   count  what for",
    "abc  12345  words of the first row",
    "d        6  more",
  ]);
  expect(table(21, [id, count], { last })).toEqual([
    "id   count  what for",
    "abc  12345  words o…",
    "d        6  more",
  ]);
  expect(table(20, [id, count], { last })).toEqual(["id   count", "abc  12345", "d        6"]);
});

test("columns leave at once by their number, the highest first, and one of number 0 stays", () => {
  const named = (title: string, leaves: number): Column<Row> => ({ title, leaves, text: () => title });
  const shown = [named("keep", 0), named("bb", 2), named("a", 1), named("b", 2)];
  expect(table(16, shown)[1]).toBe("keep  bb  a  b");
  expect(table(14, shown)[1]).toBe("keep  a");
  expect(table(7, shown)[1]).toBe("keep");
  expect(table(3, shown)[1]).toBe("keep");
});

test("cells are cut before a column leaves, those of the last column first, and only as far as it is needed", () => {
  const cut = (title: string, least: number): Column<Row> => ({
    title,
    least,
    leaves: 1,
    text: () => "0123456789",
  });
  const shown = [id, cut("first", 6), cut("second", 4)];
  expect(table(28, shown)[1]).toBe("abc  0123456789  0123456789");
  expect(table(27, shown)[1]).toBe("abc  0123456789  01234567…");
  expect(table(22, shown)[1]).toBe("abc  0123456789  012…");
  expect(table(21, shown)[1]).toBe("abc  01234567…  012…");
  expect(table(18, shown)[1]).toBe("abc  01234…  012…");
  expect(table(17, shown)[1]).toBe("abc");
});

test("where no column may leave, cells with a least width are cut further", () => {
  const name: Column<Row> = { title: "name", least: 6, leaves: 0, text: () => "0123456789" };
  expect(table(12, [id, name])[1]).toBe("abc  01234…");
  expect(table(9, [id, name])[1]).toBe("abc  01…");
});

test("a column is as wide as its widest cell or its title, at most so wide, or has a fixed width", () => {
  const wide = { ...id, text: () => "0123456789" };
  expect(table(undefined, [{ ...wide, most: 5 }, count])).toEqual([
    "id     count",
    "0123…  12345",
    "0123…      6",
  ]);
  expect(table(undefined, [{ ...id, width: 6 }, count])).toEqual([
    "id      count",
    "abc     12345",
    "d           6",
  ]);
});

test("a mark stands before each row, in the room of the line", () => {
  const mark = () => "●";
  expect(table(undefined, [id, count], { mark })).toEqual(["  id   count", "● abc  12345", "● d        6"]);
  expect(table(13, [id, count], { mark })[1]).toBe("● abc  12345");
  expect(table(12, [id, count], { mark })[1]).toBe("● abc");
});
