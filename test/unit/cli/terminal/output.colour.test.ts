import { expect, test } from "vitest";
import { createOutput } from "../../../../src/cli/terminal/output.ts";

const isColoured = (env: Record<string, string>, isTTY: boolean) => {
  const stream = { isTTY, on: () => {}, write: () => {} };
  const { style, resultStyle } = createOutput(stream, stream, env);
  expect(style("red", "x") === resultStyle("red", "x")).toBe(true);
  return style("red", "x") !== "x";
};

test.each([
  [{}, true, true],
  [{}, false, false],
  [{ TERM: "dumb" }, true, false],
  [{ NO_COLOR: "yes" }, true, false],
  [{ NO_COLOR: "yes", FORCE_COLOR: "1" }, true, false],
  [{ NO_COLOR: "" }, true, true],
  [{ FORCE_COLOR: "1" }, false, true],
  [{ FORCE_COLOR: "" }, false, true],
  [{ FORCE_COLOR: "0" }, true, false],
  [{ FORCE_COLOR: "false" }, true, false],
])("with %j a terminal (%s) is coloured: %s", (env, isTTY, coloured) => {
  expect(isColoured({ ...env } as Record<string, string>, isTTY)).toBe(coloured);
});
