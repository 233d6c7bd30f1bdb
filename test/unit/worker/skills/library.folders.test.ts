/** Skills of several folders, and of files that no model should be given. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { openSkills } from "../../../../src/worker/skills/library.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

const skill = (name: string, description: string, text = "Do it.") =>
  `---\nname: ${name}\ndescription: ${description}\n---\n${text}\n`;

function folderWith(files: Record<string, string | Buffer>): string {
  const folder = mkdtempSync(join(tmpdir(), "skills-"));
  closeAtEnd(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  return folder;
}

test("of two folders with a skill of one name the earlier one's is used, and the list is in the order of names", async () => {
  const first = folderWith({ "p/SKILL.md": skill("p", "The first."), "z/SKILL.md": skill("z", "Last.") });
  const second = folderWith({ "a/SKILL.md": skill("a", "Early."), "p/SKILL.md": skill("p", "The second.") });
  const { skills, problems } = await openSkills([first, second]);
  expect(skills.map(({ name, description }) => [name, description])).toEqual([
    ["a", "Early."],
    ["p", "The first."],
    ["z", "Last."],
  ]);
  expect(problems).toEqual([{ path: join(second, "p"), message: "there is a skill p already" }]);
});

test("a file that is no text, or longer than a model should read, is none", async () => {
  const bytes = 256 * 1_024;
  const folder = folderWith({
    "p/SKILL.md": skill("p", "One."),
    "p/image.png": Buffer.from([0x89, 0x50, 0xff]),
    "p/fits.txt": "x".repeat(bytes),
    "p/long.txt": "x".repeat(bytes + 1),
  });
  const { read } = await openSkills([folder]);
  const found = await Promise.all(["image.png", "fits.txt", "long.txt"].map((file) => read("p", file)));
  expect(found.map((text) => text?.length)).toEqual([undefined, bytes, undefined]);
});

test("a description of several lines is one, and only that of the front matter is put in quotes", async () => {
  const text = "description: mine: as I wrote it";
  const lines = skill("p", "|\n  Draws\n  maps.", text);
  const quoted = skill("q", '"Quoted."', text);
  const folder = folderWith({ "p/SKILL.md": lines, "q/SKILL.md": quoted });
  const { skills, read } = await openSkills([folder]);
  expect(skills.map(({ description }) => description.trim())).toEqual(["Draws maps.", "Quoted."]);
  expect(await read("q", "SKILL.md")).toBe(quoted);
});

test("128 skills are used, and the next one is a problem", async () => {
  const names = Array.from({ length: 129 }, (_, at) => `s${String(at).padStart(3, "0")}`);
  const folder = folderWith(
    Object.fromEntries(names.map((name) => [`${name}/SKILL.md`, skill(name, "One.")])),
  );
  const { skills, problems } = await openSkills([folder]);
  expect([skills.length, problems.map(({ message }) => message)]).toEqual([
    128,
    ["only 128 skills are used"],
  ]);
});
