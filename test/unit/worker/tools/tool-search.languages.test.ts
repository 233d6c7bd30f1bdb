/** Tools whose servers describe them in other languages than English. */
import { expect, test } from "vitest";
import { z } from "zod";
import type { Tool, ToolContext } from "../../../../src/worker/tools/tool.ts";
import { defineTool } from "../../../../src/worker/tools/tool.ts";
import { withFinding } from "../../../../src/worker/tools/tool-search.ts";

const context = {} as ToolContext;

function described(name: string, description: string): Tool {
  const tool = defineTool({ name, description, input: z.object({}), run: async () => "" });
  return { ...tool, server: "mcp__mail" };
}

test("a tool is found by the words of its description, in whatever letters they are", async () => {
  const others = Array.from({ length: 30 }, (_, n) => described(`mcp__mail__t${n}`, "Rechnet etwas aus"));
  const tools = [described("mcp__mail__send", "Отправляет письмо, 发送邮件"), ...others];
  const find = withFinding(tools).find(({ name }) => name === "find_tools");
  for (const query of ["письмо", "发送邮件"])
    expect(await find?.run({ query }, context)).toMatch(/^mcp__mail__send: /);
});
