import { describe, expect, it } from "vitest";
import { z } from "zod";
import { systemClock } from "../../../../src/shared/clock.ts";
import { createBaseTools } from "../../../../src/worker/tools/builtin/index.ts";
import { defineTool } from "../../../../src/worker/tools/tool.ts";

const good = {
  name: "echo",
  description: "Says it again.",
  input: z.object({ text: z.string() }),
  run: async () => "",
};

describe("defineTool", () => {
  it("fills in the defaults: not idempotent, two minutes", () => {
    expect(defineTool(good)).toMatchObject({ idempotent: false, timeoutMs: 120_000 });
  });

  it("takes the shortest time and the longest that a timer can hold", () => {
    for (const timeoutMs of [1, 2 ** 31 - 1])
      expect(defineTool({ ...good, timeoutMs })).toMatchObject({ timeoutMs });
  });

  it.each([
    ["an empty name", { ...good, name: "" }],
    ["a name with a capital", { ...good, name: "Echo" }],
    ["a name that starts with a digit", { ...good, name: "1echo" }],
    ["a path as a name", { ...good, name: "../../x" }],
    ["a name of 65 characters", { ...good, name: "e".repeat(65) }],
    ["a blank description", { ...good, description: "  " }],
    ["no time", { ...good, timeoutMs: 0 }],
    ["negative time", { ...good, timeoutMs: -1 }],
    ["time that is not a number", { ...good, timeoutMs: Number.NaN }],
    ["more time than a timer can hold", { ...good, timeoutMs: 2 ** 31 }],
  ])("refuses %s", (_title, definition) => {
    expect(() => defineTool(definition)).toThrow(expect.objectContaining({ code: "invalid_tool" }));
  });

  it("refuses a definition without a function to run, and none at all", () => {
    const { run: _run, ...without } = good;
    for (const definition of [without, undefined] as unknown[])
      expect(() => Reflect.apply(defineTool, undefined, [definition])).toThrow(
        expect.objectContaining({ code: "invalid_tool" }),
      );
  });

  it("refuses a part that it does not know, and leaves an object of a class its own fields", () => {
    expect(() => defineTool({ ...good, ...{ idempotant: true, timeout_ms: 5 } })).toThrow(
      expect.objectContaining({
        code: "invalid_tool",
        message: expect.stringContaining(
          'defineTool does not know "idempotant", "timeout_ms"; it takes name,',
        ),
      }),
    );
    class Echo {
      readonly name = "echo";
      readonly description = "Says it again.";
      readonly input = good.input;
      readonly prefix = "you said ";
      async run({ text }: { text: string }) {
        return this.prefix + text;
      }
    }
    expect(defineTool(new Echo())).toMatchObject({ name: "echo" });
  });

  it("refuses an input that JSON Schema cannot say", () => {
    expect(() => defineTool({ ...good, input: z.object({ at: z.date() }) })).toThrow(
      expect.objectContaining({ code: "invalid_tool" }),
    );
  });

  it("refuses an input that is no object, also when types were ignored", () => {
    const input = z.string() as z.ZodType as typeof good.input;
    expect(() => defineTool({ ...good, input })).toThrow(expect.objectContaining({ code: "invalid_tool" }));
  });

  it("names the field that is wrong in one sentence", async () => {
    const tool = defineTool({ ...good, input: z.object({ where: z.object({ line: z.int() }) }) });
    expect(await tool.check({ where: { line: "x" } })).toEqual({
      ok: false,
      problem: "field `where.line`: expected number, received string",
    });
    expect(await tool.check(null)).toMatchObject({ ok: false });
  });

  it("gives byte-identical schemas for every set of base tools, and says what is required", () => {
    const schemas = () =>
      JSON.stringify(createBaseTools({ clock: systemClock }).map((tool) => tool.inputSchema));
    expect(schemas()).toBe(schemas());
    const [readFile] = createBaseTools({ clock: systemClock });
    expect(readFile?.inputSchema).toMatchObject({ type: "object", required: ["file_path"] });
    expect(schemas()).not.toContain("$schema");
  });
});

describe("null", () => {
  const tool = defineTool({
    name: "range",
    description: "Reads a range.",
    input: z.object({ from: z.int(), to: z.int().optional(), mark: z.string().nullable().optional() }),
    run: async () => "",
  });

  it("is an optional field left out, stays where the tool takes it, and is wrong where a value is required", async () => {
    expect(await tool.check({ from: 1, to: null })).toEqual({ ok: true, input: { from: 1 } });
    expect(await tool.check({ from: 1, mark: null })).toEqual({ ok: true, input: { from: 1, mark: null } });
    expect(await tool.check({ from: null })).toMatchObject({
      ok: false,
      problem: expect.stringContaining("`from`"),
    });
  });
});
