import { expect, it } from "vitest";
import { z } from "zod";
import { defineTool, type Tool } from "../../../../src/worker/tools/tool.ts";
import { withFinding } from "../../../../src/worker/tools/tool-search.ts";
import { openScene } from "./scene.ts";

/** A tool of a server: its description has so many characters. */
const hidden = (name: string, chars = 20): Tool => ({
  ...defineTool({ name: "one", description: "x".repeat(chars), input: z.object({}), run: async () => "" }),
  name: `mcp__far__${name}`,
  server: "mcp__far",
});

it("a tool with a long description or schema hides no other one, and is named", async () => {
  const tools = [hidden("find_first", 30_000), hidden("find_second"), hidden("find_third")];
  const others = Array.from({ length: 30 }, (_, n) => hidden(`other_${n}`));
  const find = withFinding([...tools, ...others]).find(({ name }) => name === "find_tools");
  const scene = await openScene();
  const found = await find?.run({ query: "find" }, scene.context());
  expect(found).toContain("mcp__far__find_second: x");
  expect(found).toContain("mcp__far__find_third: x");
  expect(found).toMatch(/Left out, for their descriptions are too long: mcp__far__find_first\.$/);
});

it("where all that were found are too long, they are named", async () => {
  const long = Array.from({ length: 31 }, (_, n) => hidden(`find_${n}`, 30_000));
  const find = withFinding(long).find(({ name }) => name === "find_tools");
  const scene = await openScene();
  const found = await find?.run({ query: "find_30" }, scene.context());
  expect(found).toMatch(/^Left out, for their descriptions are too long: mcp__far__find_30/);
});

it("a query is read up to its twentieth word: one of hundreds costs no more", async () => {
  const tools = Array.from({ length: 31 }, (_, n) => hidden(`other_${n}`));
  const find = withFinding([...tools, hidden("invoice")]).find(({ name }) => name === "find_tools");
  const scene = await openScene();
  const found = (unknown: number) => {
    const words = Array.from({ length: unknown }, (_, n) => `q${n}`);
    return find?.run({ query: [...words, "invoice"].join(" ") }, scene.context());
  };
  expect(await found(19)).toMatch(/^mcp__far__invoice: /);
  expect(await found(20)).toMatch(/^No tool fits/);
});
