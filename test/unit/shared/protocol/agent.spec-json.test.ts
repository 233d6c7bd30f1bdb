import { expect, test } from "vitest";
import { AgentSpecJson, PAYLOAD_VERSION } from "../../../../src/shared/protocol/agent.ts";
import { SPAWN_LIMITS } from "../../../../src/shared/protocol/limits.ts";

const textOf = (extra: object = {}) =>
  JSON.stringify({
    ...{ v: PAYLOAD_VERSION, model: "m", limits: SPAWN_LIMITS, keep_alive: false, idle_ms: 600_000 },
    ...extra,
  });
/** Returns true if the specification is still held: then a second read gives the same object. */
function isHeld(text: string): boolean {
  const spec = AgentSpecJson.parse(text);
  return AgentSpecJson.parse(text) === spec;
}

test("a process holds the last 32 specifications, and none of more than 64 Ki characters", () => {
  const first = textOf({ system: "first" });
  const spec = AgentSpecJson.parse(first);
  for (let n = 1; n < 32; n += 1) AgentSpecJson.parse(textOf({ system: `other ${n}` }));
  expect(AgentSpecJson.parse(first)).toBe(spec);
  AgentSpecJson.parse(textOf({ system: "one more" }));
  expect(AgentSpecJson.parse(first)).not.toBe(spec);
  const room = 64 * 1024 - textOf({ system: "" }).length;
  expect(isHeld(textOf({ system: "x".repeat(room) }))).toBe(true);
  expect(isHeld(textOf({ system: "x".repeat(room + 1) }))).toBe(false);
});

test("a specification with a null in its output schema is read", () => {
  const output_schema = { type: "object", properties: { found: { enum: ["yes", null] } } };
  expect(AgentSpecJson.parse(textOf({ output_schema })).output_schema).toEqual(output_schema);
});

test.for(["{", "null", "{}", textOf({ idle_ms: 0 })])("%s is no specification", (text) => {
  expect(AgentSpecJson.safeParse(text).success).toBe(false);
});
