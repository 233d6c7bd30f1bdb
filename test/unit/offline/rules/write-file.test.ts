import { expect, it } from "vitest";
import { answer } from "../../../../src/offline/rules/rule.ts";
import { literalIn, targetIn, writeFile } from "../../../../src/offline/rules/write-file.ts";

const rule = writeFile(() => answer("what was found"));

it.each([
  ["Write a poem to poem.txt", "poem.txt"],
  ["Research X, then save it as `out/x.md`.", "out/x.md"],
  ["Please write the sum of a.csv into the file ./b.csv", "b.csv"],
  ["Find out about Y. Save your findings in a file named y.md", "y.md"],
])("takes “%s” as an order to write", (text, target) => {
  expect(rule.matches(text)).toBe(true);
  expect(targetIn(text)).toBe(target);
});

it.each(["How does write work in src/server.ts?", "Review src/a.ts", "Write a poem"])(
  "leaves “%s” alone",
  (text) => {
    expect(rule.matches(text)).toBe(false);
  },
);

it("writes a literal text as it is, and else what was found", () => {
  expect(literalIn('Write "a b" to "x.txt"', "x.txt")).toBe("a b");
  expect(literalIn("Write to x.txt:\n```ts\nconst a = 1;\n```", "x.txt")).toBe("const a = 1;\n");
  const task = {
    text: "Write what you know to x.txt",
    steps: [],
    offered: new Set(["write_file"]),
    places: ["."],
  };
  expect(rule.next(task)).toMatchObject({
    calls: [{ name: "write_file", input: { file_path: "x.txt", content: "what was found\n" } }],
  });
});

it("says so when it may not write, or when writing failed", () => {
  const task = { text: 'Write "a" to x.txt', steps: [], offered: new Set<string>(), places: ["."] };
  expect(rule.next(task)).toMatchObject({ text: expect.stringContaining("may not be used") });
  const step = {
    name: "write_file",
    input: { file_path: "x.txt", content: "a" },
    output: "disk full",
    failed: true,
  };
  expect(rule.next({ ...task, steps: [step] })).toMatchObject({
    text: "x.txt was not written: write_file failed: disk full",
  });
});
