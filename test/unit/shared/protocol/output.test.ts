import { expect, test } from "vitest";
import { readOutput } from "../../../../src/shared/protocol/output.ts";

test.each([
  ["bare", '{"a":1}'],
  ["in a fence", '```\n{"a":1}\n```'],
  ["in a fence that names its language, with blanks around", '  ```JSON  \n\n{"a":1}\n\n```\n'],
  ["in a fence that closes in its own line", '```json\n{"a":1}```'],
])("a value is read %s", (_, text) => {
  expect(readOutput(text)).toEqual({ status: "json", value: { a: 1 } });
});

test.each([
  ["text around the fence", 'Here:\n```json\n{"a":1}\n```'],
  ["a fence in one line", '```{"a":1}```'],
  ["a fence that does not close", '```json\n{"a":1}'],
  ["no value in the fence", "```\n```"],
  ["three backquotes alone", "```"],
])("%s is no output", (_, text) => {
  expect(readOutput(text)).toMatchObject({ status: "unreadable" });
});

test("half a megabyte of line ends behind a fence is looked at once", () => {
  expect(readOutput(`\`\`\`${"\n".repeat(500_000)}x`)).toMatchObject({ status: "unreadable" });
  expect(readOutput(`\`\`\`${" ".repeat(500_000)}x\n\`\`\``)).toMatchObject({ status: "unreadable" });
});
