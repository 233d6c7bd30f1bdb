/** Guarantee: a resumed agent keeps what its old one had, as far as its parent still allows it. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Parent } from "../../../src/producer/parent.ts";
import { openSkills } from "../../../src/worker/skills/library.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openStage } from "../../stage/stage.ts";

const address = { tenant: "default", parentId: "planner-7" };
const kept = {
  description: "Finds things.",
  fallback_models: ["offline-2"],
  skills: ["maps", "pdf"],
  hooks: ["log"],
  disallowed_tools: ["bash"],
  alerts: { turns: 5 },
  keep_alive: true,
  idle_ms: 600_000,
  transcript_ms: 400_000,
  effort: "high",
  task_budget: 60_000,
  output_schema: { type: "object", properties: {} },
} as const;

async function skillsNamed(...names: string[]) {
  const folder = mkdtempSync(join(tmpdir(), "skills-"));
  closeAtEnd(() => rmSync(folder, { recursive: true, force: true }));
  for (const name of names) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, "SKILL.md"), `---\nname: ${name}\ndescription: One.\n---\nDo it.\n`);
  }
  return openSkills([folder]);
}

/** An ended agent with a conversation and all that an agent may have of its own. */
async function scene() {
  const stage = await openStage({ scenario: { turns: [{ content: [{ type: "text", text: "{}" }] }] } });
  await stage.startWorker({
    skills: await skillsNamed("maps", "pdf"),
    hooks: [{ name: "log", subagentStart: () => undefined }],
  });
  const parent = stage.parent();
  const { agent_id } = await parent.spawn({
    name: "worker",
    agent: "explorer",
    ...kept,
    fallback_models: [...kept.fallback_models],
    skills: [...kept.skills],
    hooks: [...kept.hooks],
    disallowed_tools: [...kept.disallowed_tools],
    answer_within_ms: 500_000,
    permissions: { deny: ["grep(secret*)"] },
    limits: { max_turns: 9, max_tokens: 7_000, max_duration_ms: 700_000 },
  });
  await parent.send(agent_id, "start");
  await parent.waitAny([agent_id]);
  await parent.destroy(agent_id);
  const specOf = async (by: Parent) => {
    const { agent_id: resumed } = await by.resume(agent_id, "go on");
    const uid = (await stage.store.uidOf(address, resumed)) ?? "";
    return (await stage.store.record({ ...address, uid }))?.spec;
  };
  return { stage, parent, specOf };
}

test("a resumed agent has all that its old one had", async () => {
  const { parent, specOf } = await scene();
  expect(await specOf(parent)).toMatchObject({
    ...kept,
    definition: "explorer",
    tools: ["read_file", "grep", "glob"],
    answer_ms: 500_000,
    permissions: [{ deny: ["grep(secret*)"] }],
    limits: { max_turns: 9, max_tokens: 7_000, max_duration_ms: 700_000 },
  });
});

test("a resumed agent has no more than its parent allows by now, and each rule once", async () => {
  const { stage, specOf } = await scene();
  const rules = { deny: ["glob(secret*)"] };
  const narrower = stage.parent("planner-7", {
    skills: ["maps"],
    tools: ["glob", "read_file"],
    idle_ms: 60_000,
    answer_within_ms: 50_000,
    transcript_ms: 40_000,
    effort: "low",
    task_budget: 30_000,
    permissions: rules,
    limits: { max_turns: 3, max_tokens: 2_000, max_duration_ms: 20_000 },
  });
  expect(await specOf(narrower)).toMatchObject({
    skills: ["maps"],
    tools: ["read_file", "glob"],
    idle_ms: 60_000,
    answer_ms: 50_000,
    transcript_ms: 40_000,
    effort: "low",
    task_budget: 30_000,
    permissions: [rules, { deny: ["grep(secret*)"] }],
    limits: { max_turns: 3, max_tokens: 2_000, max_duration_ms: 20_000 },
  });
  const again = stage.parent("planner-7", { permissions: { deny: ["grep(secret*)"] } });
  expect((await specOf(again))?.permissions).toEqual([{ deny: ["grep(secret*)"] }]);
});
