/** Skills: listed in the system prompt, loaded by a tool, narrowed like tools. */
import { mkdir, mkdtemp, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import type { Scenario } from "../../../src/offline/server.ts";
import { openSkills } from "../../../src/worker/skills/library.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

async function folderWith(files: Record<string, string>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "skills-"));
  closeAtEnd(() => rm(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  return folder;
}

const SKILLS = {
  "pdf/SKILL.md":
    "---\nname: pdf\ndescription: Fills forms: use it for PDF files\nlicense: MIT\n---\n# Forms\n\nRun the script.\n",
  "pdf/scripts/fill.py": "print('fill')\n",
  "pdf/server.pem": "KEY",
  "maps/SKILL.md": "---\nname: maps\ndescription: Draws maps.\n---\nDraw.\n",
};

const load = (input: Record<string, unknown>): Scenario => ({
  match: { user: "work" },
  turns: [
    { content: [{ type: "tool_use", id: "toolu_1", name: "skill", input }] },
    { content: [{ type: "text", text: "Done." }] },
  ],
});

async function runWith(scenario: Scenario, spec: { tools?: string[]; skills?: string[] } = {}) {
  const stage = await openStage({ scenario });
  const { model, heads } = recordingModel(stage.offline.url);
  const skills = await openSkills([await folderWith(SKILLS)]);
  expect(skills.problems).toEqual([]);
  await stage.startWorker({ model, skills });
  const reply = await stage.parent("planner-7", { model: "offline-1", ...spec }).task("work");
  return { reply, first: heads[0], messages: heads.at(-1)?.messages ?? "" };
}

test("a folder dropped in unchanged is listed by name and description, and loaded with its files", async () => {
  const { first, messages } = await runWith(load({ name: "pdf" }));
  expect(first?.system).toContain("- maps: Draws maps.\n- pdf: Fills forms: use it for PDF files");
  expect(first?.tools).toContain("skill");
  expect(messages).toContain(
    "# Forms\\n\\nRun the script.\\n\\n\\nIts files, to be loaded by this tool with `file`: scripts/fill.py.",
  );
  expect(messages).not.toContain("license: MIT");
});

test("a file of a skill is read by the same tool", async () => {
  const { messages } = await runWith(load({ name: "pdf", file: "scripts/fill.py" }));
  expect(messages).toContain("print('fill')");
});

test.for([
  { file: "../maps/SKILL.md" },
  { file: "/etc/passwd" },
  { file: "scripts" },
  { file: "scripts/../SKILL.md" },
  { file: "server.pem" },
])("a path that is none of its files is refused: $file", async ({ file }) => {
  const { messages } = await runWith(load({ name: "pdf", file }));
  expect(messages).toContain("The skill pdf has no such text file.");
});

test("skills are narrowed like tools: others are neither listed nor loaded, none means no tool", async () => {
  const narrowed = await runWith(load({ name: "pdf" }), { skills: ["maps"], tools: ["Read"] });
  expect(narrowed.first?.system).toContain("- maps: Draws maps.");
  expect(narrowed.first?.system).not.toContain("pdf");
  expect(narrowed.first?.tools).toEqual(["read_file", "skill"]);
  expect(narrowed.messages).toContain("There is no skill of this name. Use one of: maps.");
  const none = await runWith(load({ name: "pdf" }), { skills: [] });
  expect(none.first?.tools).not.toContain("skill");
  expect(none.first?.system).not.toContain("Skills:");
});

test("a skill that cannot be used is a problem with its path, and keeps no other away", async () => {
  const folder = await folderWith({
    ...SKILLS,
    "bad/SKILL.md": "---\nname: bad\n---\n",
    "big/SKILL.md": `---\nname: big\ndescription: x\n---\n${"x".repeat(300_000)}`,
    "heavy/SKILL.md": "---\nname: heavy\ndescription: x\n---\n",
    "heavy/in/data.txt": "",
    "link/SKILL.md": "---\nname: link\ndescription: x\n---\n",
  });
  await symlink("/etc/passwd", join(folder, "link/passwd"));
  await truncate(join(folder, "heavy/in/data.txt"), 16 * 1024 * 1024 + 1);
  const { skills, problems } = await openSkills([folder, join(folder, "missing")]);
  expect(skills.map(({ name }) => name)).toEqual(["maps", "pdf"]);
  const named = problems.map(({ path }) => path.slice(folder.length + 1).split("/")[0]);
  expect(named).toEqual(expect.arrayContaining(["bad", "big", "link", "missing"]));
  const saidOf = (name: string) => problems.find(({ path }) => path.startsWith(join(folder, name)))?.message;
  expect(saidOf("big")).toBe("300033 bytes are more than the 262144 that it may have (skipped)");
  expect(saidOf("heavy")).toBe("16777217 bytes are more than the 16777216 that it may have (skipped)");
  expect(saidOf("link")).toMatch(/^symlinks/);
});

test.for([
  ["blanks alone", " ".repeat(60_000)],
  ["blanks before its words", `${"\t".repeat(60_000)}Draws: maps.`],
])("a description with %s is read at the cost of its length", async ([, description = ""]) => {
  const text = `---\nname: maps\ndescription: ${description}\n---\nDraw.\n`;
  const sinceMs = process.cpuUsage();
  const { skills } = await openSkills([await folderWith({ "maps/SKILL.md": text })]);
  expect(skills.map((each) => each.description)).toEqual(description.trim() === "" ? [] : ["Draws: maps."]);
  expect(process.cpuUsage(sinceMs).user / 1_000).toBeLessThan(2_000);
});

test("of two skills with one name that of the earlier folder holds, and the other is told of", async () => {
  const later = await folderWith({ "maps/SKILL.md": "---\nname: maps\ndescription: Later.\n---\nLater.\n" });
  const { skills, problems, read } = await openSkills([await folderWith(SKILLS), later]);
  expect(skills.map(({ name, description }) => [name, description])).toContainEqual(["maps", "Draws maps."]);
  expect(await read("maps", "SKILL.md")).toContain("Draw.");
  expect(problems).toEqual([{ path: join(later, "maps"), message: "there is a skill maps already" }]);
});

test("a spawn may not name a skill that its parent's profile leaves out", async () => {
  const stage = await openStage();
  const parent = stage.parent("planner-7", { model: "offline-1", skills: ["maps"] });
  await expect(parent.spawn({ name: "a", skills: ["pdf"] })).rejects.toMatchObject({
    code: "invalid_input",
    details: { field: "skills", requested: ["pdf"], allowed: ["maps"] },
  });
  expect((await parent.spawn({ name: "b" })).in_force).toEqual({ skills: ["maps"] });
});

test("a run whose skills no worker has waits for them, and says so", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const definitions = await folderWith({
    "drawer.md": "---\nname: drawer\ndescription: Draws.\nskills: maps\n---\nYou draw.\n",
  });
  const parent = stage.parent("planner-7", { client: stage.client({ agents: [definitions] }) });
  const drawing = parent.task({ agent: "drawer", prompt: "Draw a map" });
  const { agent_id } = await until(async () =>
    (await parent.list()).find(({ status }) => status === "waiting_for_tools"),
  );
  await parent.destroy(agent_id);
  expect(await drawing).toMatchObject({ status: "cancelled" });
});
