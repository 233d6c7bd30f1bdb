import { expect, it } from "vitest";
import { z } from "zod";
import { defineTool, type Tool } from "../../../../src/worker/tools/tool.ts";
import { withFinding } from "../../../../src/worker/tools/tool-search.ts";
import { openScene } from "./scene.ts";

const hidden = (name: string): Tool => ({
  ...defineTool({ name: "one", description: "x", input: z.object({}), run: async () => "" }),
  name: `mcp__far__${name}`,
  server: "mcp__far",
});

it("of more than ten tools with the words of a query the rest is named", async () => {
  const tools = Array.from({ length: 31 }, (_, n) => hidden(n < 12 ? `find_${n}` : `other_${n}`));
  const find = withFinding(tools).find(({ name }) => name === "find_tools");
  const scene = await openScene();
  const found = async (query: string) => find?.run({ query }, scene.context());
  expect(await found("find")).toMatch(
    /\n2 more have such words, ask with others to see them: mcp__far__find_10, mcp__far__find_11\.$/,
  );
  expect(await found("12")).not.toContain(" more have such words");
});
