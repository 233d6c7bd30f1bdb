/** Guarantee: a skill whose files this process may not look at hides none of the others. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openSkills } from "../../../../src/worker/skills/library.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

const NOBODY = 65_534;

test("a skill that may not be listed, entered or read whole is a problem of its own", async () => {
  const folder = mkdtempSync(join(tmpdir(), "skills-"));
  closeAtEnd(() => rmSync(folder, { recursive: true, force: true }));
  for (const name of ["closed", "locked", "open", "shut"]) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, "SKILL.md"), `---\nname: ${name}\ndescription: One.\n---\nDo it.\n`);
  }
  chmodSync(join(folder, "locked"), 0o600);
  chmodSync(join(folder, "shut"), 0o300);
  writeFileSync(join(folder, "closed", "key.txt"), "key", { mode: 0 });
  // Root may enter every directory.
  if (process.geteuid?.() === 0) {
    execFileSync("chown", ["-R", String(NOBODY), folder]);
    process.seteuid?.(NOBODY);
    onTestFinished(() => process.seteuid?.(0));
  }
  const { skills, problems } = await openSkills([folder]);
  expect(skills.map(({ name }) => name)).toEqual(["open"]);
  expect(problems.map(({ path }) => path).sort()).toEqual(
    ["closed/key.txt", "locked", "shut"].map((path) => join(folder, path)),
  );
  for (const { message } of problems) expect(message).toMatch(/^it cannot be read \(EACCES.*\) \(skipped\)$/);
  for (const name of ["locked", "shut"]) chmodSync(join(folder, name), 0o700);
});
