/** Guarantee: a definition that other programs read is read here as well: every mode, and blanks around what it names. */
import { expect, test } from "vitest";
import { readDefinition } from "../../../../src/producer/definitions/definition.ts";

function read(...lines: string[]) {
  return readDefinition(["---", "description: d", ...lines, "---", "Work."].join("\n"), "stem");
}

test.for(["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions", "auto", "manual"])(
  "permissionMode: %s is known, and only plan denies what writes",
  (mode) => {
    const permissions = mode === "plan" ? [{ deny: ["bash", "edit_file", "write_file"] }] : [];
    expect(read(`permissionMode: ${mode}`)).toMatchObject({ ok: true, definition: { permissions } });
  },
);

test("an unknown mode is refused at its line", () => {
  const problem = { line: 3, message: expect.stringMatching(/^permissionMode: /) };
  expect(read("permissionMode: yolo")).toMatchObject({ ok: false, problem });
});

test("blanks around names, texts and entries are no part of them", () => {
  const definition = {
    name: "a-b",
    description: "text",
    model: "sonnet",
    skills: ["one", "two"],
    tools: ["read_file"],
  };
  const text = [
    "---",
    'name: " a-b "',
    'description: " text "',
    'model: " sonnet "',
    "skills: one,, two ,",
    'tools: [" Read "]',
  ];
  expect(readDefinition([...text, "---", ""].join("\n"), "stem")).toMatchObject({ ok: true, definition });
});

test("its own rules and the patterns of its tools are layers of their own", () => {
  const lines = ["tools: Bash(git *), Read", "permissions: { deny: [write_file] }", "permissionMode: plan"];
  expect(read(...lines)).toMatchObject({
    ok: true,
    definition: {
      permissions: [
        { allow: expect.arrayContaining([expect.stringContaining("git *")]) },
        { deny: ["write_file"] },
        { deny: ["bash", "edit_file", "write_file"] },
      ],
    },
  });
});

test.for([
  ["description", "d".repeat(8_193)],
  ["model", "m".repeat(129)],
] as const)("a %s that is too long is refused", ([field, value]) => {
  const text = ["---", ...(field === "model" ? ["description: d"] : []), `${field}: ${value}`, "---", ""];
  const problem = { message: expect.stringMatching(new RegExp(`^${field}: `)) };
  expect(readDefinition(text.join("\n"), "stem")).toMatchObject({ ok: false, problem });
});

test("at most 256 tools, and 32 ignored keys are named", () => {
  const tools = Array.from({ length: 257 }, (_, i) => `tool_${i}`).join(", ");
  expect(read(`tools: ${tools}`)).toMatchObject({ ok: false });
  const keys = Array.from({ length: 40 }, (_, i) => `odd${i}: 1`);
  const { definition } = read(...keys) as { definition?: { ignored: string[] } };
  expect(definition?.ignored).toEqual(keys.slice(0, 32).map((line) => line.split(":")[0]));
});
