import { expect, test } from "vitest";
import { requestHead } from "../../../../src/worker/model/request.ts";

const toolsOf = (head: string) => JSON.parse(`{${head}}`).tools;

test("tools that share their schema and description have their own names in each head", () => {
  const input_schema = { type: "object" };
  const tool = (name: string) => ({ name, description: "d", input_schema });
  for (const name of ["first", "second"]) {
    const head = requestHead({ maxTokens: 100, system: "Some.", tools: [tool(name)] });
    expect(toolsOf(head)).toEqual([tool(name)]);
  }
});

test("an input whose schema names no type is one of objects: the API takes no other", () => {
  const tool = { name: "look", description: "d", input_schema: { properties: {} } };
  const head = requestHead({ maxTokens: 100, system: "", tools: [tool] });
  expect(toolsOf(head)[0].input_schema).toEqual({ properties: {}, type: "object" });
});
