import { mkdtemp, rename, rm, symlink, utimes, writeFile } from "node:fs/promises";
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

/** Writes a definition with this time of its last change, in seconds. */
async function write(file: string, model: string, atS: number): Promise<void> {
  const path = join(folder, file);
  await writeFile(path, `---\nname: a\ndescription: Does it.\nmodel: ${model}\n---\n`);
  await utimes(path, atS, atS);
}

test("a change that keeps the length of its file is noticed", async () => {
  await write("a.md", "opus-4", 1_000);
  const source = openDefinitions([folder], clock);
  expect(source.find("a").model).toBe("opus-4");
  await write("a.md", "haiku5", 2_000);
  nowMs += 1_000;
  expect(source.find("a").model).toBe("haiku5");
});

test("a file that takes the place of another of its length and time is noticed", async () => {
  await write("a.md", "opus-4", 1_000);
  const source = openDefinitions([folder], clock);
  expect(source.find("a").model).toBe("opus-4");
  await write("next", "haiku5", 1_000);
  await rename(join(folder, "next"), join(folder, "a.md"));
  nowMs += 1_000;
  expect(source.find("a").model).toBe("haiku5");
});

test("what is no regular file is not read: reading it might never end", async () => {
  await symlink(tmpdir(), join(folder, "a.md"));
  const { problems } = openDefinitions([folder], clock).list();
  expect(problems).toEqual([{ file: join(folder, "a.md"), line: 1, message: "is no regular file" }]);
});
