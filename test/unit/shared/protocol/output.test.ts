import { expect, test } from "vitest";
import { OutputSchema, readOutput } from "../../../../src/shared/protocol/output.ts";
import { checkOutput as check } from "../../../../src/worker/tools/output-check.ts";

test.each([
  ["bare", '{"a":1}'],
  ["in a fence", '```\n{"a":1}\n```'],
  ["in a fence that names its language, with blanks around", '  ```JSON  \n\n{"a":1}\n\n```\n'],
  ["in a fence that closes in its own line", '```json\n{"a":1}```'],
])("a value is read %s", (_, text) => {
  expect(readOutput(text)).toEqual({ status: "json", value: { a: 1 } });
});

test.each([
  ["text around the fence", 'Here:\n```json\n{"a":1}\n```'],
  ["a fence in one line", '```{"a":1}```'],
  ["a fence that does not close", '```json\n{"a":1}'],
  ["no value in the fence", "```\n```"],
  ["three backquotes alone", "```"],
])("%s is no output", (_, text) => {
  expect(readOutput(text)).toMatchObject({ status: "unreadable" });
});

test("half a megabyte of line ends behind a fence is looked at once", () => {
  expect(readOutput(`\`\`\`${"\n".repeat(500_000)}x`)).toMatchObject({ status: "unreadable" });
  expect(readOutput(`\`\`\`${" ".repeat(500_000)}x\n\`\`\``)).toMatchObject({ status: "unreadable" });
});

const holding = (part: unknown) => ({ type: "object", properties: { a: part } });
/** A value that reaches every place of the schemas below. */
const VALUE = '{"a":{"a":1,"b":"x"},"b":"x"}';

test.each<[string, Record<string, unknown>, RegExp]>([
  ["no type", holding({ type: "nonsense" }), /type "nonsense" at "#\/properties\/a\/type"/],
  ["a type that is a number", { type: 5 }, /type "5" at "#\/type"/],
  ["one of several types that is none", { type: ["object", "any"] }, /type "any"/],
  [
    "a pattern that cannot be read",
    holding({ items: { pattern: "(" } }),
    /"#\/properties\/a\/items\/pattern"/,
  ],
  ["a pattern that only older expressions read", { pattern: "\\-" }, /"#\/pattern".*flag u/],
  ["names as such a pattern", { patternProperties: { "[": {} } }, /"#\/patternProperties"/],
  ["a long pattern for names", { patternProperties: { ["a".repeat(1_001)]: {} } }, /1000 characters/],
  ["a reference to nothing", holding({ $ref: "#/$defs/none" }), /"#\/\$defs\/none" at "#\/properties\/a"/],
  ["a reference to a name that nothing has", holding({ $ref: "#none" }), /\$ref to "#none"/],
  ["a reference to what is no schema", { $ref: "#/required", required: ["a"] }, /where nothing is/],
  ["a reference to what every object has", { $ref: "#/__proto__" }, /where nothing is/],
  ["a reference out of it behind one into it", { $ref: "#/x/y", x: { y: { $ref: "https:z" } } }, /\$defs/],
  ["a reference that is a number", { $ref: 5 }, /no text/],
  ["a reference to itself", { $ref: "#" }, /leads from "#" back to itself/],
  [
    "references in a circle",
    {
      ...holding({ $ref: "#/$defs/a" }),
      $defs: { a: { $ref: "#/$defs/b" }, b: { anyOf: [{ type: "null" }, { $ref: "#/$defs/a" }] } },
    },
    /leads from "#\/\$defs\/a" back to itself/,
  ],
  ["a text where a schema must be", holding("string"), /no schema at "#\/properties\/a"/],
  ["no list where a list must be", { anyOf: { type: "object" } }, /no schema at "#\/anyOf"/],
])("a schema with %s is refused, with the place", (_name, schema, sentence) => {
  const read = OutputSchema.safeParse(schema);
  expect(read.error?.issues[0]?.message).toMatch(sentence);
});

test.each<[string, Record<string, unknown>]>([
  [
    "references that end, from a place to the one around it",
    {
      ...holding({ $ref: "#/$defs/tree" }),
      $defs: {
        tree: {
          type: "object",
          properties: { a: { anyOf: [{ type: "integer" }, { $ref: "#/$defs/tree" }] } },
        },
      },
    },
  ],
  ["references to the whole", { properties: { a: { $ref: "#" } }, type: ["object", "number"] }],
  ["references by name", { ...holding({ $ref: "#word" }), $defs: { word: { $anchor: "word" } } }],
  ["references with escapes", { ...holding({ $ref: "#/$defs/a~1b%20c" }), $defs: { "a/b c": true } }],
  [
    "references to unknown keywords",
    { ...holding({ $ref: "#/components/a" }), components: { a: { type: "object" } } },
  ],
  [
    "a document of its own",
    {
      ...holding({}),
      $defs: { inner: { $id: "inner", $ref: "#/$defs/deep", $defs: { deep: { type: "object" } } } },
    },
  ],
  [
    "an address of its own",
    { $id: "https://x.example/a", ...holding({ $ref: "#/$defs/a" }), $defs: { a: {} } },
  ],
  [
    "keywords as names of properties",
    {
      type: "object",
      properties: { type: { type: "string" }, $ref: { type: "string" }, pattern: { const: 1 }, a: true },
      additionalProperties: { pattern: "^\\p{L}+$" },
    },
  ],
  ["keywords in values", { not: { enum: [{ type: "nonsense", $ref: "https://x", pattern: "(" }] } }],
  [
    "what older drafts say",
    {
      $schema: "http://json-schema.org/draft-07/schema#",
      ...holding({ items: [{ type: "string" }], additionalItems: false }),
      definitions: { a: { $id: "#a" }, b: { $ref: "#a" } },
    },
  ],
])("a schema with %s is taken, and can be checked", async (_name, schema) => {
  expect(OutputSchema.safeParse(schema).error?.issues).toBeUndefined();
  expect(await check(schema, VALUE)).not.toHaveProperty("final");
});

test("what is refused could not be checked either", async () => {
  for (const schema of [holding({ $ref: "#/$defs/none" }), { $ref: "#" }, holding(null), { pattern: "(" }])
    expect(await check(schema, "pattern" in schema ? '"x"' : VALUE)).toMatchObject({ final: true });
});

test("a schema full of costly patterns and references is judged in its time", () => {
  const before = process.cpuUsage();
  const patterns = Array.from({ length: 1_000 }, (_, index) => [`p${index}`, { pattern: "[\\P{Lu}]" }]);
  const chain = Array.from({ length: 1_000 }, (_, index) => [`c${index}`, { $ref: `#/$defs/c${index + 1}` }]);
  expect(OutputSchema.safeParse({ properties: Object.fromEntries(patterns) }).success).toBe(true);
  expect(OutputSchema.safeParse({ $defs: Object.fromEntries([...chain, ["c1000", {}]]) }).success).toBe(true);
  expect(process.cpuUsage(before).user).toBeLessThan(1_000_000);
});
