/** Which tools are listed, and which are found first. */
import { expect, it } from "vitest";
import { z } from "zod";
import { defineTool, type Tool } from "../../../../src/worker/tools/tool.ts";
import { listedOf, withFinding } from "../../../../src/worker/tools/tool-search.ts";
import { openScene } from "./scene.ts";

const hidden = (name: string, description = "Does something."): Tool => ({
  ...defineTool({ name: "one", description, input: z.object({}), run: async () => "" }),
  name: `mcp__far__${name}`,
  server: "mcp__far",
});
const others = (count: number) => Array.from({ length: count }, (_, n) => hidden(`other_${n}`));

async function namesFound(tools: readonly Tool[], query: string): Promise<unknown> {
  const find = withFinding(tools).find(({ name }) => name === "find_tools");
  const found = String(await find?.run({ query }, (await openScene()).context()));
  return found.match(/(?<=^mcp__far__)\w+(?=: )/gm);
}

it("thirty tools of servers are listed one by one, one more is searched for", () => {
  const thirty = others(30);
  expect(listedOf(withFinding(thirty))).toEqual(thirty);
  const names = listedOf(withFinding(others(31))).map(({ name }) => name);
  expect(names).toEqual(["find_tools", "use_tool"]);
});

it("a word in a name counts more than two words in a description", async () => {
  const tools = [...others(31), hidden("sum", "Adds invoice lines up"), hidden("invoice")];
  expect(await namesFound(tools, "invoice lines")).toEqual(["invoice", "sum"]);
});

it("ten tools are found at most", async () => {
  expect(await namesFound(others(31), "other")).toHaveLength(10);
});
