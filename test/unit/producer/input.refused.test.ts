import { expect, test } from "vitest";
import { z } from "zod";
import { Names, readInput, refusalAt } from "../../../src/producer/input.ts";
import { SubagentError } from "../../../src/shared/errors.ts";

test("a refusal names 20 problems of an input at most", () => {
  const read = () => readInput(z.array(z.string()), Array(30).fill(1), "list");
  expect(read).toThrow(
    expect.objectContaining({ details: { issues: expect.objectContaining({ length: 20 }) } }),
  );
});

test("a name that is given twice counts once", () => {
  expect(Names.parse(["a", "b", "a"])).toEqual(["a", "b"]);
});

test("a refusal of one of many inputs keeps its cause", () => {
  const cause = new Error("why");
  const placed = refusalAt(3, new SubagentError("invalid_input", "no.", {}, cause));
  expect(placed).toMatchObject({ message: "inputs[3]: no.", cause, details: { index: 3 } });
});
