import { expect, test } from "vitest";
import { readFrontMatter } from "../../../../src/producer/definitions/front-matter.ts";

const read = (...lines: string[]) => readFrontMatter(["---", ...lines, "---", "Do it."].join("\n"));

test("an alias is refused, also one that stands for little", () => {
  expect(read("name: &name reader", "description: *name")).toMatchObject({
    ok: false,
    problem: { message: expect.stringContaining("Alias") },
  });
});

test("a front matter of one long line is too long as one of many lines is", () => {
  const text = "x".repeat(64 * 1024);
  expect(read(`description: ${text}`)).toMatchObject({
    ok: false,
    problem: { line: 2, message: expect.stringContaining("longer than 65536 characters") },
  });
  expect(read(`description: ${text.slice(100)}`)).toMatchObject({ ok: true });
});

test("a file that is read again with its words quoted costs both readings", () => {
  const lines = ["name: reader", "tools: [Read, Grep]"];
  const once = read(...lines, 'description: "Use: this"');
  const twice = read(...lines, "description: Use: this");
  expect([once.ok, twice.ok]).toEqual([true, true]);
  expect(twice.tokens).toBeGreaterThan(once.tokens * 1.5);
});
