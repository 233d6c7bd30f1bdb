import { expect, test } from "vitest";
import { readDefinition } from "../../../../src/producer/definitions/definition.ts";
import { PermissionRules } from "../../../../src/shared/protocol/permissions.ts";

const withTools = (tools: string) => readDefinition(`---\ndescription: b\ntools: ${tools}\n---\n`, "a");
const many = (count: number) => Array.from({ length: count }, (_, n) => `tool_${n}`).join(", ");

test("a blank before the pattern of a tool is no part of its rule", () => {
  const read = withTools("Bash (git diff:*, git log:*), Read");
  expect(read).toMatchObject({
    ok: true,
    definition: {
      tools: ["bash", "read_file"],
      permissions: [{ allow: ["Bash(git diff:*, git log:*)", "Read"] }],
    },
  });
});

test.for([
  ["Bash(git diff:*) only, Read", /^tools\.0: a tool's name, or a name and a pattern/],
  ["Bash(git diff:*), my.tool", /^tools\.1: a tool's name, or a name and a pattern/],
  [`Bash(git diff:*), ${many(64)}`, /^tools: must be at most 64 entries long/],
] as const)(
  "tools whose patterns are no rules are a problem of their file, and no agent is made of it: %s",
  ([tools, message]) => {
    expect(withTools(tools)).toMatchObject({
      ok: false,
      problem: { line: 3, message: expect.stringMatching(message) },
    });
  },
);

test("tools without a pattern are no rules: any number of any name", () => {
  expect(withTools(`my.tool, ${many(100)}`)).toMatchObject({ ok: true, definition: { permissions: [] } });
});

test("the rules of a definition are rules that a worker reads", () => {
  const read = withTools(`[Bash(git diff:*), " Write ( docs/** ) ", ${many(62)}]`);
  expect(
    read.ok && read.definition.permissions.map((layer) => PermissionRules.safeParse(layer).success),
  ).toEqual([true]);
});
