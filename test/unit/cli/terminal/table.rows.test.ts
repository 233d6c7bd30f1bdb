/** Guarantee: a table has as many rows as there are, also more than a call takes arguments. */
import { expect, test } from "vitest";
import { createStyle } from "../../../../src/cli/terminal/output.ts";
import { renderTable } from "../../../../src/cli/terminal/table.ts";

test("150,000 rows", () => {
  const column = { title: "n", leaves: 0, text: (row: string) => row };
  const rows = Array.from({ length: 150_000 }, () => "");
  expect(renderTable(rows, [column], { columns: undefined, style: createStyle(false) })).toHaveLength(
    150_001,
  );
});
