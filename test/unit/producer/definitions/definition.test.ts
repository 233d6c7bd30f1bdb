import { describe, expect, test } from "vitest";
import { readDefinition } from "../../../../src/producer/definitions/definition.ts";

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
    ["without a description", ["---", "name: a", "---"], 1, /description: is missing/],
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
      /permissions: /,
    ],
    [
      "with two spellings of one key, one of whose bounds would be lost",
      ["---", "description: b", "disallowedTools: Bash", "disallowed_tools: Write", "---"],
      4,
      /disallowed_tools: stands here as disallowedTools, too/,
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
    ["tags", "description: !!js/function 'process.exit()'"],
  ])("%s do no harm", ([, matter]) => {
    const before = process.cpuUsage();
    const problem = problemOf(`---\n${matter}\n---\n`);
    expect(process.cpuUsage(before).user).toBeLessThan(2_000_000);
    if (matter.includes("!!js")) expect(problem).toBeUndefined();
    else expect(problem).toBeDefined();
  });
});
