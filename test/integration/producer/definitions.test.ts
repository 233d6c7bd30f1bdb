/** Agent definitions, from the folder to the model that answers: what a spawn that names one is made of. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { refusal } from "../../helpers/parents.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { openStage } from "../../stage/stage.ts";

async function folderWith(files: Record<string, string>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "definitions-"));
  closeAtEnd(() => rm(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

const TESTER = `---
name: tester
description: Runs the tests.
tools: Read, Grep, Bash(npm test)
disallowedTools: Glob
model: haiku
maxTurns: 3
---
You run the tests.`;

test("a spawn that names a definition is made of it, and the receipt and the record say so", async () => {
  const stage = await openStage();
  const agents = [await folderWith({ "tester.md": TESTER })];
  const client = stage.client({ agents, model: "offline-1", models: { haiku: "offline-small" } });
  const parent = stage.parent("planner-7", { client });
  const receipt = await parent.spawn({ name: "T", agent: "tester", limits: { max_turns: 2 } });
  expect(receipt).toMatchObject({
    model: "offline-small",
    limits: { max_turns: 2 },
    unknown_tools: ["bash"],
    in_force: {
      definition: "tester",
      tools: ["read_file", "grep", "bash"],
      disallowed_tools: ["glob"],
      permissions: [{ allow: ["Read", "Grep", "Bash(npm test)"] }],
    },
  });
  const [uid = ""] = await stage.store.liveUids({ tenant: "default", parentId: "planner-7" });
  const record = await stage.store.record({ tenant: "default", parentId: "planner-7", uid });
  expect(record?.spec).toMatchObject({ system: "You run the tests.", definition: "tester" });
});

test("a definition may ask for more turns and tools than there are, a spawn may not", async () => {
  const stage = await openStage();
  const agents = [
    await folderWith({ "eager.md": "---\ndescription: x\ntools: Read, Write\nmaxTurns: 500\n---\nGo." }),
  ];
  const client = stage.client({ agents, model: "offline-1" });
  const parent = stage.parent("planner-7", { client, tools: ["Read", "Grep"] });
  expect(await parent.spawn({ name: "a", agent: "eager" })).toMatchObject({
    limits: { max_turns: 20 },
    in_force: { tools: ["read_file"] },
  });
  await expect(parent.spawn({ name: "b", agent: "eager", tools: ["grep"] })).rejects.toMatchObject(
    refusal("invalid_input"),
  );
  await expect(parent.spawn({ name: "c", agent: "nobody" })).rejects.toMatchObject(
    refusal("unknown_definition"),
  );
});

test("a definition of whose tools the parent has none makes no agent: it could only guess", async () => {
  const stage = await openStage();
  const agents = [
    await folderWith({
      "writer.md": "---\ndescription: x\ntools: Write\n---\nGo.",
      "thinker.md": "---\ndescription: x\n---\nGo.",
    }),
  ];
  const client = stage.client({ agents, model: "offline-1" });
  const parent = stage.parent("planner-7", { client, tools: ["Read"] });
  await expect(parent.spawn({ name: "a", agent: "writer" })).rejects.toMatchObject(
    refusal(
      "invalid_input",
      /tools of the definition writer write_file is more than is allowed here \(read_file\)/,
    ),
  );
  expect(await parent.list()).toEqual([]);
  expect(await parent.spawn({ name: "b", agent: "writer", tools: [] })).toMatchObject({
    in_force: { tools: [] },
  });
  expect(await parent.spawn({ name: "c", agent: "thinker" })).toMatchObject({
    in_force: { tools: ["read_file"] },
  });
});

test("a spawn that is made again after its definition was removed is answered as before, and a new one refused", async () => {
  const stage = await openStage();
  const wish = { name: "T", agent: "tester", request_key: "k1" };
  const agents = [await folderWith({ "tester.md": TESTER })];
  const first = await stage.parent("planner-7", { client: stage.client({ agents }) }).spawn(wish);
  const parent = stage.parent();
  expect(await parent.spawn(wish)).toEqual({ ...first, known: true });
  await expect(parent.spawn({ ...wish, request_key: "k2" })).rejects.toMatchObject(
    refusal("unknown_definition", /tester/),
  );
});

test("a run of a definition follows its prompt and has its tools, on a worker that has no such folder", async () => {
  const stage = await openStage({
    scenario: [{ match: { user: "Look" }, turns: [{ content: [{ type: "text", text: "Seen." }] }] }],
  });
  const { model, heads } = recordingModel(stage.offline.url);
  await stage.startWorker({ model });
  const parent = stage.parent("planner-7", { model: "offline-1" });
  const reply = await parent.task({ prompt: "Look around", agent: "explorer" });
  expect(reply).toMatchObject({ status: "succeeded", summary: "Seen." });
  expect(heads[0]?.system).toMatch(/^You explore files for a parent/);
  expect(heads[0]?.tools).toEqual(["glob", "grep", "read_file"]);
});

test("the parent's model chooses among the definitions by name and description", async () => {
  const stage = await openStage();
  const parent = stage.parent("planner-7", { model: "offline-1" });
  for (const tool of parent.tools(["task", "agent", "spawn_sub_agent"])) {
    const { agent } = tool.input_schema.properties as Record<string, { enum: string[]; description: string }>;
    expect(agent?.enum, tool.name).toEqual(["code-reviewer", "explorer"]);
    expect(agent?.description).toMatch(/explorer: Finds things out in files/);
  }
  const [spawn] = parent.tools(["spawn_sub_agent"]);
  expect(
    JSON.parse((await spawn?.run({ name: "Scout", description: null, agent: "explorer" })) ?? ""),
  ).toMatchObject({
    agent_id: "scout",
  });
  expect(await parent.list()).toMatchObject([{ agent_id: "scout", definition: "explorer" }]);
});

test("the reviewer that ships returns its review in shape", async () => {
  const review = {
    verdict: "changes_needed",
    summary: "One bug.",
    findings: [{ severity: "major", file: "a.ts", problem: "x" }],
  };
  const stage = await openStage({
    scenario: [
      {
        match: { user: "Review" },
        turns: [{ content: [{ type: "text", text: JSON.stringify(review) }] }],
        repeat: true,
      },
    ],
  });
  await stage.startWorker();
  const parent = stage.parent("planner-7", { model: "offline-1" });
  const reply = await parent.task({ prompt: "Review a.ts", agent: "code-reviewer" });
  expect(reply).toMatchObject({ status: "succeeded", output: review });
});
