/** Files of a skill that became something else after the library was opened. */
import { execFileSync } from "node:child_process";
import { constants } from "node:fs";
import { mkdir, mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openSkills } from "../../../../src/worker/skills/library.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

/** A skill with a file, whose path it answers. */
async function skillWithFile() {
  const folder = await mkdtemp(join(tmpdir(), "skills-"));
  closeAtEnd(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, "p"));
  await writeFile(join(folder, "p/SKILL.md"), "---\nname: p\ndescription: One.\n---\nDo it.\n");
  const path = join(folder, "p/notes.txt");
  await writeFile(path, "notes");
  return { library: await openSkills([folder]), path };
}

test("a file that has become a pipe is none, and nobody waits for its writer", async () => {
  const { library, path } = await skillWithFile();
  await rm(path);
  execFileSync("mkfifo", [path]);
  // A reader that waits would keep its thread, and this process with it.
  const free = async () => (await open(path, constants.O_RDWR)).close();
  closeAtEnd(free);
  expect(await library.read("p", "notes.txt")).toBeUndefined();
});
