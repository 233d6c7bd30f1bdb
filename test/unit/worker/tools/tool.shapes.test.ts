/** What is derived from a definition: whether a call needs the workspace, and the schema that a model sees. */
import { expect, it } from "vitest";
import { z } from "zod";
import { defineTool, type ToolContext } from "../../../../src/worker/tools/tool.ts";

const good = { name: "echo", description: "Says it again.", input: z.object({ text: z.string() }) };

class Notes {
  async write(_input: unknown, { workspace }: ToolContext): Promise<string> {
    return workspace.directory;
  }
}

it.for<[string, Parameters<typeof defineTool>[0]["run"], boolean]>([
  ["no context", async (_input) => "", false],
  ["a context", async (_input, _context) => "", true],
  ["any number of arguments", async (...all: unknown[]) => String(all.length), true],
  ["what a bound method takes", new Notes().write.bind(new Notes()), true],
])("a tool whose run takes %s", async ([, run, usesWorkspace]) => {
  expect(defineTool({ ...good, run })).toMatchObject({ usesWorkspace });
});

it("a field with a default may be left out by the model", async () => {
  const input = z.object({ text: z.string(), times: z.int().default(1) });
  const tool = defineTool({ ...good, input, run: async ({ times }) => times });
  expect(tool.inputSchema.required).toEqual(["text"]);
  expect(await tool.check({ text: "a" })).toEqual({ ok: true, input: { text: "a", times: 1 } });
});
