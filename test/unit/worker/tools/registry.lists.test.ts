/** Guarantee: the list of tools is the same object until there are more, and an allowlist may name a server. */
import { expect, it } from "vitest";
import { z } from "zod";
import { createToolbox } from "../../../../src/worker/tools/registry.ts";
import { defineTool, type Tool } from "../../../../src/worker/tools/tool.ts";

const tool = (name: string): Tool =>
  defineTool({ name, description: "Does nothing.", input: z.object({}), run: async () => "" });

it("the whole list is made once, and again when there are more tools", () => {
  let later: readonly Tool[] = [];
  const box = createToolbox([tool("b")], () => later);
  const { tools } = box.resolve(undefined);
  expect(box.resolve(undefined).tools).toBe(tools);
  later = [tool("a")];
  expect(box.resolve(undefined).tools.map(({ name }) => name)).toEqual(["a", "b"]);
});

it("the name of a server stands for its tools, and is not unknown", () => {
  const ofServer = { ...tool("mcp__wiki__read"), server: "mcp__wiki" };
  const { tools, unknown } = createToolbox([tool("b"), ofServer]).resolve(["mcp__wiki", "mcp__none"]);
  expect(tools).toEqual([ofServer]);
  expect(unknown).toEqual(["mcp__none"]);
});
