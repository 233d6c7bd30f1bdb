import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { openDefinitions } from "../../../../src/producer/definitions/folders.ts";

let folder: string;
let nowMs = 0;
const clock = { monotonicMs: () => nowMs };

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "definitions-"));
  return () => rm(folder, { recursive: true, force: true });
});

const text = (name: string, body = "Do it.") => `---\nname: ${name}\ndescription: Does it.\n---\n${body}\n`;
const write = (file: string, content: string) => writeFile(join(folder, file), content);
const names = (found: { name: string }[]) => found.map(({ name }) => name);

test("two are there without any folder", () => {
  const { definitions, problems } = openDefinitions([], clock).list();
  expect(names(definitions).sort()).toEqual(["code-reviewer", "explorer"]);
  expect(problems).toEqual([]);
  expect(definitions.every(({ tools }) => tools?.join() === "read_file,grep,glob")).toBe(true);
});

test("files of folders and those below are found, and take the place of what ships", async () => {
  await mkdir(join(folder, "team"));
  await write("team/tester.md", text("tester"));
  await write("explorer.md", text("explorer", "Ours."));
  await write("README.md", "# no definition");
  await write("notes.txt", "no definition");
  const source = openDefinitions([folder], clock);
  expect(names(source.list().definitions)).toEqual(["code-reviewer", "explorer", "tester"]);
  expect(source.list().problems).toEqual([]);
  expect(source.find("explorer")).toMatchObject({ system: "Ours.", file: join(folder, "explorer.md") });
});

test("folders are looked through three deep, and no file is read beyond 256 of a folder", async () => {
  await mkdir(join(folder, "a/b/c"), { recursive: true });
  await write("a/b/found.md", text("found"));
  await write("a/b/c/too-deep.md", text("too-deep"));
  const source = openDefinitions([folder], clock);
  expect(names(source.list().definitions)).toEqual(["code-reviewer", "explorer", "found"]);
  for (let n = 0; n < 256; n++) await write(`${n}.md`, text(`n${n}`));
  nowMs += 1_000;
  expect(source.list().definitions).toHaveLength(2 + 256);
  expect(source.list().problems).toEqual([
    { file: folder, line: 1, message: "only the first 256 files are read" },
  ]);
});

test("a changed, a new and a removed file are noticed a second later", async () => {
  await write("a.md", text("a", "First."));
  const source = openDefinitions([folder], clock);
  expect(source.find("a").system).toBe("First.");
  await write("a.md", text("a", "Second, and longer."));
  await write("b.md", text("b"));
  nowMs += 999;
  expect(source.find("a").system).toBe("First.");
  nowMs += 1;
  expect(source.find("a").system).toBe("Second, and longer.");
  expect(source.find("b").system).toBe("Do it.");
  await rm(join(folder, "a.md"));
  nowMs += 1_000;
  expect(() => source.find("a")).toThrow(/no agent definition "a": use one of b, code-reviewer, explorer/);
});

test("a file that cannot be used is a problem of its own, named when it is asked for", async () => {
  await write("good.md", text("good"));
  await write("bad.md", "---\nname: bad\n---\n");
  const source = openDefinitions([folder, join(folder, "missing")], clock);
  expect(names(source.list().definitions)).toContain("good");
  expect(source.list().problems).toEqual([
    { file: join(folder, "missing"), line: 1, message: expect.stringContaining("cannot be read") },
    { file: join(folder, "bad.md"), line: 1, message: expect.stringContaining("description") },
  ]);
  expect(() => source.find("bad")).toThrow(`${join(folder, "bad.md")}:1: description`);
});

test("of two with one name the first holds, and the second is told", async () => {
  await write("a.md", text("same", "First."));
  await write("b.md", text("same", "Second."));
  const source = openDefinitions([folder], clock);
  expect(source.find("same").system).toBe("First.");
  expect(source.list().problems).toEqual([
    { file: join(folder, "b.md"), line: 2, message: `same stands in ${join(folder, "a.md")} already` },
  ]);
});

test("a file that is too large is not read", async () => {
  await write("large.md", text("large", "x".repeat(400 * 1024)));
  expect(openDefinitions([folder], clock).list().problems).toMatchObject([
    { message: "is larger than 320 KB" },
  ]);
});

test("one look reads so much of all folders together: what comes behind is not read, and says so", async () => {
  for (let n = 0; n < 60; n++) await write(`${n + 100}.md`, text(`large-${n}`, "x".repeat(300 * 1024)));
  const { definitions, problems } = openDefinitions([folder], clock).list();
  const read = definitions.filter(({ name }) => name.startsWith("large-"));
  expect(read.length).toBeGreaterThan(50);
  expect(read.length).toBeLessThan(56);
  expect(problems).toHaveLength(60 - read.length);
  expect(problems[0]).toMatchObject({
    line: 1,
    message: expect.stringMatching(/^is not read: the files before it/),
  });
});

test("of a folder of files that cost the parser most, only the first few are parsed", async () => {
  const costly = `---\ndescription: b\nx: ${"]".repeat(3_900)}\n---\n`;
  for (let n = 0; n < 256; n++) await write(`${n}.md`, costly);
  const source = openDefinitions([folder], clock);
  const { problems } = source.list();
  expect(problems).toHaveLength(256);
  expect(problems.filter(({ message }) => message.startsWith("is not read")).length).toBeGreaterThan(220);
});

test("a file is read as soon as there is room for it", async () => {
  for (let n = 0; n < 60; n++) await write(`${n + 100}.md`, text(`large-${n}`, "x".repeat(300 * 1024)));
  const source = openDefinitions([folder], clock);
  expect(() => source.find("159")).toThrow(/is not read/);
  for (let n = 0; n < 10; n++) await rm(join(folder, `${n + 100}.md`));
  nowMs += 1_000;
  expect(source.find("large-59")).toBeDefined();
  expect(source.list().problems).toEqual([]);
});
