/** A definition whose tools are `*` names none: its agents get those of their parent. */
import { expect, test } from "vitest";
import { readDefinition } from "../../../../src/producer/definitions/definition.ts";

test.each(['"*"', "Read, *", "[Read, '*']"])("tools: %s", (tools) => {
  const text = `---\ndescription: Finds things.\ntools: ${tools}\n---\nLook.`;
  expect(readDefinition(text, "finder")).toMatchObject({
    ok: true,
    definition: { tools: undefined },
  });
});
