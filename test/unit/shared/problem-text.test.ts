import { expect, test } from "vitest";
import { z } from "zod";
import { readMcpServers } from "../../../src/shared/mcp-server.ts";
import { problemText, wordingOf } from "../../../src/shared/problem-text.ts";

const servers = (mcpServers: unknown) => readMcpServers(JSON.stringify({ mcpServers }), {});

test.each([
  [{ a: {} }, "mcpServers.a: needs command or url"],
  [{ a: { env: {} } }, "mcpServers.a: needs command or url"],
  [{ a: { command: 3 } }, "mcpServers.a: command must be text"],
  [{ a: { command: "x", env: { N: 1 } } }, "mcpServers.a: env.N must be text"],
  [{ a: { command: "x", arg: [] } }, 'mcpServers.a: does not know "arg"'],
  [{ a: { url: "here" } }, "mcpServers.a.url: must be a URL"],
  [{ a: { type: "http", command: "x" } }, "mcpServers.a: type must be stdio"],
  [{ a: 7 }, "mcpServers.a: must be an object"],
  [
    { "a b": { command: "x" } },
    "mcpServers.a b: cannot have this name: a name of letters, digits, - and single _",
  ],
  [undefined, "mcpServers: is missing"],
  [[], "mcpServers: must be an object"],
])("the servers %j are refused in words that say what to write: %s", (given, problem) => {
  expect(servers(given)).toEqual({ problem });
});

test.each([
  [z.union([z.string(), z.array(z.string())]), 3, "it: must be text"],
  [z.literal("on"), "off", "it: must be on"],
  [z.object({ a: z.array(z.enum(["x", "y"])) }), { a: ["z"] }, "a.0: must be one of x, y"],
  [z.string().regex(/^x/, "begins with x"), "a", "it: begins with x"],
])("a value that fits no schema is told without the words of the library: %#", (schema, value, problem) => {
  const { error } = schema.safeParse(value, { error: wordingOf });
  expect(error && problemText(error)).toBe(problem);
});
