import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { createMcpTools } from "../../../../../src/worker/tools/mcp/tools.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { startMcpServer } from "../../../../helpers/mcp.ts";

/** A schema of so many objects in one another, twice as many with their lists of properties. */
function nested(objects: number): Record<string, unknown> {
  let schema: Record<string, unknown> = { type: "object" };
  for (let n = 1; n < objects; n++) schema = { type: "object", properties: { inner: schema } };
  return schema;
}

/** Tools of a started server that lists these, and the lines of the worker's log. */
async function toolsOf(listed: readonly object[]) {
  const { url } = await startMcpServer({ "tools/list": () => ({ tools: listed }) });
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
  const mcp = createMcpTools(
    { far: { url, headers: {}, timeout_ms: 60_000 } },
    { clock: systemClock, logger },
  );
  closeAtEnd(() => mcp.stop());
  await mcp.start();
  return { mcp, lines };
}

it("leaves out tools whose schemas would have every request refused, and says why", async () => {
  const text = { type: "string" };
  const schemas: Record<string, object> = {
    any: { anyOf: [{ required: ["a"] }] },
    one: { oneOf: [] },
    all: { allOf: [] },
    odd: { properties: { "filter[id]": text } },
    long: { properties: { ["k".repeat(65)]: text } },
    loose: { properties: { a: 5 } },
    listed: { properties: [] },
    required: { required: "a" },
    fine: {
      properties: { "a.b-c_D9": { anyOf: [text], properties: { "x[y]": text } }, ok: true },
      required: ["ok"],
    },
  };
  const listed = Object.entries(schemas).map(([name, schema]) => ({
    name,
    inputSchema: { type: "object", ...schema },
  }));
  const { mcp, lines } = await toolsOf(listed);
  expect(mcp.tools().map(({ name }) => name)).toEqual(["mcp__far__fine"]);
  const left = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === "MCP tool left out");
  expect(left.map(({ tool, problem }) => `${tool}: ${problem}`)).toEqual([
    ...[
      "any: its input schema has anyOf",
      "one: its input schema has oneOf",
      "all: its input schema has allOf",
    ].map((begin) => `${begin} at the top level, where the Messages API takes none`),
    expect.stringMatching(/^odd: its input has a property "filter\[id\]", whose name does not match /),
    expect.stringMatching(/^long: its input has a property "k+", whose name does not match /),
    "loose: the properties of its input schema are no schemas",
    "listed: the properties of its input schema are no schemas",
    "required: what its input schema requires is no list of names",
  ]);
});

it("shows a deep schema whole while secrets are known, and leaves out once what is too deep to be searched for them", async () => {
  const schemas = { flat: nested(1), deep: nested(20), deepest: nested(64), deeper: nested(65) };
  const listed = Object.entries(schemas).map(([name, inputSchema]) => ({ name, inputSchema }));
  const { url } = await startMcpServer({ "tools/list": () => ({ tools: listed }) });
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
  const far = { url, headers: { Authorization: "Bearer tok-5d1e8c33a0" }, timeout_ms: 60_000 };
  const mcp = createMcpTools({ far }, { clock: systemClock, logger });
  closeAtEnd(() => mcp.stop());
  await mcp.start();
  const shown = mcp.tools().map(({ name, inputSchema }) => [name, inputSchema]);
  expect(Object.fromEntries(shown)).toEqual({
    mcp__far__flat: schemas.flat,
    mcp__far__deep: schemas.deep,
    mcp__far__deepest: schemas.deepest,
  });
  const left = lines.filter((line) => line.includes("MCP tool left out"));
  expect(left).toEqual([expect.stringContaining('"tool":"deeper"')]);
});

it("offers the first of two tools that come to one name, and repeats only what its server calls read-only", async () => {
  const inputSchema = { type: "object" };
  const longest = "n".repeat(128 - "mcp__far__".length);
  const listed = [
    { name: "a b", description: "the first", annotations: { readOnlyHint: true }, inputSchema },
    { name: "a_b", description: "the second", inputSchema },
    { name: "c", description: " ", annotations: { readOnlyHint: false }, inputSchema },
    { name: longest, inputSchema },
    { name: `${longest}n`, inputSchema },
    { name: "", inputSchema },
  ];
  const { mcp, lines } = await toolsOf(listed);
  expect(mcp.tools().map(({ name, description, idempotent }) => [name, description, idempotent])).toEqual([
    ["mcp__far__a_b", "the first", true],
    ["mcp__far__c", "mcp__far__c", false],
    [`mcp__far__${longest}`, longest, false],
  ]);
  // Its own limit, with its better sentence, is over first.
  for (const { timeoutMs } of mcp.tools()) expect(timeoutMs).toBeGreaterThan(60_000 + 10_000);
  expect(lines.filter((line) => line.includes('"problem":"another one has its name"'))).toHaveLength(1);
});
