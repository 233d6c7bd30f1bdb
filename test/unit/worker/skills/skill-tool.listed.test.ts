import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openSkills } from "../../../../src/worker/skills/library.ts";
import { skillToolFor } from "../../../../src/worker/skills/skill-tool.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { openScene } from "../tools/scene.ts";

test("a skill names at most 100 of its files to the model, and the number of the others", async () => {
  const folder = mkdtempSync(join(tmpdir(), "skills-"));
  closeAtEnd(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, "p"));
  writeFileSync(join(folder, "p/SKILL.md"), "---\nname: p\ndescription: One.\n---\nDo it.\n");
  for (let n = 100; n < 202; n++) writeFileSync(join(folder, `p/f${n}.txt`), "");
  const [tool] = skillToolFor(await openSkills([folder]), ["p"]);
  const text = String(await tool?.run({ name: "p" }, (await openScene()).context()));
  expect(text).toMatch(/f199\.txt and 2 more\.$/);
  expect(text).not.toContain("f200.txt");
});
