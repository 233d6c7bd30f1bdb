import { createRequire } from "node:module";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type * as Yaml from "yaml";
import { readDefinition } from "../../../../src/producer/definitions/definition.ts";
import { callsOf } from "../../../helpers/calls.ts";

const file = (...lines: string[]) => lines.join("\n");

function defined(text: string) {
  const read = readDefinition(text, "from-its-file");
  if (!read.ok) throw new TypeError(`${read.problem.line}: ${read.problem.message}`);
  return read.definition;
}

function problemOf(text: string) {
  const read = readDefinition(text, "a");
  return read.ok ? undefined : read.problem;
}

describe("a file of the common form", () => {
  test("loads unchanged: camel case, a comma string of common names, a description that is no YAML", () => {
    const definition = defined(
      file(
        "---",
        "name: code-reviewer",
        'description: Use this agent when code was written. Examples: <example>user: "done" # assistant: "I review"</example>',
        "tools: Read, Grep, Bash(git diff:*), Task",
        "disallowedTools: Write",
        "model: sonnet",
        "maxTurns: 12",
        "permissionMode: dontAsk",
        "color: blue",
        "---",
        "",
        "You review code.",
        "",
        "Be brief.",
      ),
    );
    expect(definition).toMatchObject({
      name: "code-reviewer",
      description: expect.stringMatching(/^Use this agent .*user: "done" # assistant/),
      system: "You review code.\n\nBe brief.",
      tools: ["read_file", "grep", "bash"],
      disallowed_tools: ["write_file"],
      model: "sonnet",
      max_turns: 12,
      permissions: [{ allow: ["Read", "Grep", "Bash(git diff:*)", "Task"] }],
      ignored: ["color"],
    });
  });

  test("in snake case with lists is the same", () => {
    const definition = defined(
      file(
        "---",
        "name: a",
        "description: b",
        "tools:",
        "  - Read",
        "  - my_tool",
        "disallowed_tools: [Edit]",
        "max_turns: 3",
        "---",
      ),
    );
    expect(definition).toMatchObject({
      tools: ["read_file", "my_tool"],
      disallowed_tools: ["edit_file"],
      max_turns: 3,
      system: "",
    });
  });

  test("inherits what it does not name, and what it leaves empty", () => {
    const definition = defined(file("---", "description: b", "tools:", "model: inherit", "---", "x"));
    expect(definition).toMatchObject({ name: "from-its-file", permissions: [] });
    expect([definition.tools, definition.model, definition.skills]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  test("in the mode that plans writes nothing", () => {
    expect(defined(file("---", "description: b", "permissionMode: plan", "---")).permissions).toEqual([
      { deny: ["bash", "edit_file", "write_file"] },
    ]);
  });

  test("reads files of other systems: a byte order mark, other line ends", () => {
    expect(defined("\uFEFF---\r\nname: a\r\ndescription: b\r\n---\r\nBody\r\n").system).toBe("Body");
  });
});

describe("a file that cannot be used", () => {
  test.for<[string, string[], number, RegExp]>([
    ["without front matter", ["# Title"], 1, /must begin with a line ---/],
    ["with one that never ends", ["---", "name: a"], 1, /no closing line/],
    ["without a description", ["---", "name: a", "---"], 1, /^description: is missing$/],
    [
      "with an unknown effort",
      ["---", "description: b", "effort: huge", "---"],
      3,
      /^effort: must be one of low, medium, /,
    ],
    ["with a name that is none", ["---", "description: b", "name: a b", "---"], 3, /name: .*1 to 64/],
    [
      "with turns that are no number",
      ["---", "name: a", "description: b", "maxTurns: many", "---"],
      4,
      /maxTurns: /,
    ],
    [
      "with a mode that is none",
      ["---", "description: b", "permissionMode: yolo", "---"],
      3,
      /permissionMode: /,
    ],
    [
      "with rules that are none",
      ["---", "description: b", "permissions: {deny: ['(x)']}", "---"],
      3,
      /^permissions\.deny\.0: a tool's name/,
    ],
    [
      "with two spellings of one key, one of whose bounds would be lost",
      ["---", "description: b", "disallowedTools: Bash", "disallowed_tools: Write", "---"],
      4,
      /disallowed_tools: stands here as disallowedTools, too/,
    ],
    ["with one key twice", ["---", "description: b", "name: a", "name: b", "---"], 4, /keys must be unique/],
    [
      "with one key twice further in",
      ["---", "description: b", "output_schema: {type: object,", " type: string}", "---"],
      4,
      /keys must be unique/,
    ],
    [
      "with an output schema that cannot be used",
      ["---", "description: b", "output_schema: {properties: {a: {type: text}}}", "---"],
      3,
      /output_schema: has the type "text" at "#\/properties\/a\/type"/,
    ],
    ["with broken YAML", ["---", "description: b", "tools: [Read", "---"], 3, /./],
    ["with a list for front matter", ["---", "- a", "---"], 2, /no list of keys/],
    [
      "with commands as hooks, whose guard would be missing",
      ["---", "description: b", "hooks:", "  PreToolUse:", "    - matcher: Bash", "---"],
      3,
      /hooks that are commands do not run here/,
    ],
  ])("%s says so with its line", ([, lines, line, message]) => {
    expect(problemOf(file(...lines))).toEqual({ line, message: expect.stringMatching(message) });
  });

  test.for<[string, string]>([
    ["aliases that grow", "a: &a [x]\nb: &b [*a,*a]\ndescription: *b"],
    ["nesting without end", `description: ${"[".repeat(20_000)}`],
    ["megabytes", `description: ${"x".repeat(70_000)}`],
    ["a key that is an object's own", "__proto__: {name: evil}\nname: a"],
    ["spaces after a key", `z: [\na: ${" ".repeat(60_000)}`],
    ["tags", "description: !!js/function 'process.exit()'"],
  ])("%s do no harm", ([, matter]) => {
    const before = process.cpuUsage();
    const problem = problemOf(`---\n${matter}\n---\n`);
    expect(process.cpuUsage(before).user).toBeLessThan(2_000_000);
    if (matter.includes("!!js")) expect(problem).toBeUndefined();
    else expect(problem).toBeDefined();
  });
});

/** Front matter that a parser reads in more than linear time, or that has an error in each token. */
const COSTLY: Record<string, (size: number) => string> = {
  "keys of one map": (n) => Array.from({ length: n }, (_, i) => `k${i}:`).join("\n"),
  "keys on one line": (n) => `a: {${Array.from({ length: n }, (_, i) => i).join(",")}}`,
  "quoted keys": (n) => `z: b: c\na: {${Array.from({ length: n }, (_, i) => `"${i}",`).join("")}}`,
  "pairs in a list": (n) => `a: [${"b: c,".repeat(n)}]`,
  "open brackets": (n) => `a: ${"[".repeat(n)}`,
  "open brackets that become some by quoting": (n) => `z: b: c\n ${'[""'.repeat(n)}`,
  "groups of brackets": (n) => `a: [${`${"[".repeat(60)}${"]".repeat(60)},`.repeat(n)}]`,
  "closing brackets": (n) => `a: ${"]".repeat(n)}`,
  "empty texts": (n) => `a: ${'""'.repeat(n)}`,
  "list marks on one line": (n) => "- ".repeat(n),
  "list marks further and further in": (n) =>
    Array.from({ length: n }, (_, i) => " ".repeat(Math.min(120 * i, 4_000)) + "- ".repeat(60)).join("\n"),
  "keys further and further in": (n) =>
    Array.from({ length: n }, (_, i) => `${" ".repeat(Math.min(i, 500))}a:`).join("\n"),
  "keys with question marks": (n) => "? ".repeat(n),
  "lines in brackets": (n) => `a: [\n${"b\n".repeat(n)}`,
  "anchors and tags": (n) => "&a !b ".repeat(n),
  "anchors and aliases": (n) => `a: &a b\n${"- *a\n".repeat(n)}`,
  "merge keys": (n) => `a: {${"<<: *b,".repeat(n)}}`,
  directives: (n) => "%\n".repeat(n),
  documents: (n) => "--- a\n".repeat(n),
  comments: (n) => "#\n".repeat(n),
  "empty lines": (n) => `a: b${"\n".repeat(n)}c: [`,
  "block texts": (n) => "- |\n".repeat(n),
  "parentheses that are never closed": (n) => `description: b\ntools: ${"(".repeat(n)}`,
};

/** As many keys as front matter may have. */
const ORDINARY = Array.from({ length: 500 }, (_, i) => `field_${i}: value`).join("\n");
/** The bounds allow 24 times as many calls; with twice as many tokens there would be four times that. */
const MOST_TIMES_ORDINARY = 32;

/** Returns the longest matter of this kind, and the longest that the parser is given. */
function longestOf(matterOf: (size: number) => string): string[] {
  const isParsed = (n: number) =>
    !/more than|longer than/.test(problemOf(`---\n${matterOf(n)}\n---\n`)?.message ?? "");
  const isShort = (n: number) => matterOf(n).length <= 64 * 1024;
  const largest = (fits: (n: number) => boolean) => {
    let [low, high] = [1, 2];
    // From below, because a text of 64 Ki repetitions can have a hundred megabytes.
    while (high < 64 * 1024 && fits(high)) [low, high] = [high, 2 * high];
    while (high - low > low / 16) {
      const middle = (low + high) >> 1;
      if (fits(middle)) low = middle;
      else high = middle;
    }
    return low;
  };
  const most = largest(isShort);
  return [most, largest((n) => n <= most && isParsed(n))].map(matterOf);
}

let counted: Promise<number[][]> | undefined;

/** Returns the calls for the two texts of each costly kind, in units of those for ordinary keys. */
async function countCalls(): Promise<number[][]> {
  const texts = [ORDINARY, ...Object.values(COSTLY).flatMap(longestOf)];
  const works = texts.map((matter) => () => void readDefinition(`---\n${matter}\n---\n`, "a"));
  const [ordinary = 0, ...calls] = await callsOf(works, "/yaml/", "/definitions/");
  return Object.keys(COSTLY).map((_, i) => calls.slice(2 * i, 2 * i + 2).map((count) => count / ordinary));
}

test.for(Object.keys(COSTLY))("%s cost little more than as many ordinary keys", async (kind) => {
  counted ??= countCalls();
  const times = (await counted)[Object.keys(COSTLY).indexOf(kind)] ?? [];
  expect(times).toHaveLength(2);
  for (const each of times) expect(each).toBeLessThan(MOST_TIMES_ORDINARY);
});

test("the parser's errors, as many as there are tokens, keep no stack and no copy of their line", () => {
  const parses = vi.spyOn(createRequire(import.meta.url)("yaml") as typeof Yaml, "parseDocument");
  onTestFinished(() => parses.mockRestore());
  expect(problemOf(`---\na: ${'""'.repeat(1_500)}\n---\n`)).toBeDefined();
  const parsed = parses.mock.results[0]?.value as Yaml.Document | undefined;
  const errors = parsed?.errors ?? [];
  expect(errors.length).toBeGreaterThan(1_000);
  expect(
    errors.filter(({ stack, message }) => /\n {4}at /.test(`${stack}`) || message.includes("\n")),
  ).toEqual([]);
  expect(new Error("a stack of its own").stack).toMatch(/\n {4}at /);
});

test.for([
  ["open brackets", (n: number) => `tools: ${"[".repeat(n)}${"]".repeat(n)}`],
  ["list marks", (n: number) => `${"- ".repeat(n)}a`],
] as const)("many %s in one another are refused before they are parsed", ([, nested]) => {
  expect(problemOf(`---\n${nested(70)}\n---\n`)?.message).toBe("the front matter nests too deep");
  expect(problemOf(`---\n${nested(60)}\n---\n`)?.message).not.toMatch(/nests/);
});

test("what a large definition has is read: 256 tools, a schema of 250 fields, and long texts", () => {
  const tools = Array.from({ length: 256 }, (_, i) => `  - tool_${i}`);
  const fields = Array.from({ length: 250 }, (_, i) => `field_${i}: {type: string}`);
  const description = "Use it: ".repeat(1_000);
  expect(defined(file("---", `description: ${description}`, "tools:", ...tools, "---")).tools).toHaveLength(
    256,
  );
  const schema = `output_schema: {type: object, properties: {${fields.join(", ")}}}`;
  const properties = defined(file("---", "description: b", schema, "---")).output_schema?.properties ?? {};
  expect(Object.keys(properties)).toHaveLength(250);
});
