import { describe, expect, test } from "vitest";
import { calledTool } from "../../../../src/shared/protocol/permissions.ts";

describe("a call of use_tool", () => {
  test("is one of the MCP tool that it names", () => {
    const input = { name: "mcp__files__read", input: { path: "a" } };
    expect(calledTool("use_tool", input)).toEqual({ name: "mcp__files__read", input: { path: "a" } });
    expect(calledTool("use_tool", { name: "mcp__files__list" })).toEqual({
      name: "mcp__files__list",
      input: {},
    });
  });

  test.each([{ name: "bash", input: { command: "ls" } }, { name: 5 }, null, "mcp__files__read"])(
    "is one of itself where it names none: %j",
    (input) => expect(calledTool("use_tool", input)).toEqual({ name: "use_tool", input }),
  );

  test("is no other tool's call", () => {
    const input = { name: "mcp__files__read", input: {} };
    expect(calledTool("bash", input)).toEqual({ name: "bash", input });
  });
});
