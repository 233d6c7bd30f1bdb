import { expect, test } from "vitest";
import { createStyle, formatLogLine } from "../../../../src/cli/terminal/output.ts";

const plainStyle = createStyle(false);

test("a log line is read as level, message and fields", () => {
  const line = `${JSON.stringify({ level: 40, time: 1, msg: "it failed", role: "worker", problem: "two words", n: 3 })}\n`;
  expect(formatLogLine(line, plainStyle)).toBe('warn   it failed  role=worker problem="two words" n=3');
});

test("every level has a name", () => {
  const nameOf = (level: number) =>
    formatLogLine(JSON.stringify({ level, msg: "m" }), plainStyle).split(" ")[0];
  expect([10, 20, 30, 40, 50, 60].map(nameOf)).toEqual(["debug", "debug", "info", "warn", "error", "error"]);
});

test("what is not a log entry comes back on one line, without control characters", () => {
  expect(formatLogLine("\u001b[2Joops\nagain\n", plainStyle)).toBe("oops again");
  expect(formatLogLine("3", plainStyle)).toBe("3");
});

test("only the level and the fields are coloured", () => {
  const line = JSON.stringify({ level: 50, msg: "m", a: 1 });
  expect(formatLogLine(line, createStyle(true))).toBe("\u001b[31merror\u001b[39m  m  \u001b[2ma=1\u001b[22m");
});

test("the stack of an error is left to the log in a file", () => {
  const line = JSON.stringify({
    level: 50,
    msg: "it failed",
    stack: "Error: it failed\n    at x (/srv/x.js:1:1)",
  });
  expect(formatLogLine(line, plainStyle)).toBe("error  it failed");
});
