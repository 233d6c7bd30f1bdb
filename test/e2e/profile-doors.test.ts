/** The profile of a parent holds for what comes through the command line, MCP, a schedule and the intake of a real worker process. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, test } from "vitest";
import { bundled } from "../helpers/bundle.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { spawnBuilt } from "../helpers/processes.ts";
import { runHere } from "../helpers/program.ts";
import { openStage } from "../stage/stage.ts";

const PROFILE = {
  limits: { max_turns: 5 },
  effort: "low",
  tools: ["read_file", "grep", "glob"],
  transcript_ms: 60_000,
};
const IN_FORCE = { profile_version: 1, effort: "low", tools: PROFILE.tools };

/** An installation whose one worker is a process of the command line, and a parent with a profile. */
async function place() {
  const stage = await openStage();
  const cwd = mkdtempSync(join(tmpdir(), "profile-doors-"));
  closeAtEnd(() => rmSync(cwd, { recursive: true, force: true }));
  const env = { REDIS_URL: stage.url, SUBAGENT_PREFIX: stage.prefix, SUBAGENT_PARENT: "planner-7" };
  const agents = join(cwd, "agents");
  mkdirSync(agents);
  writeFileSync(join(agents, "careful.md"), "---\ndescription: Careful.\n---\nBe careful.\n");
  const worker = await spawnBuilt(["worker"], { cwd, env: { ...env, SUBAGENT_AGENTS: agents } });
  await worker.waitForLine(/^ready: /);
  writeFileSync(join(cwd, "profile.json"), JSON.stringify(PROFILE));
  const say = async (...args: string[]) => {
    const said = await runHere(args, { cwd, env });
    expect(said).toMatchObject({ code: 0 });
    return JSON.parse(said.stdout.join("\n"));
  };
  await say("profile", "set", join(cwd, "profile.json"), "--json");
  const parent = stage.parent("planner-7", { client: stage.client({ agents: [agents] }) });
  return { stage, parent, say, env, view: (id: string) => parent.get(id) };
}

/** The next agent that has ended. */
async function nextEnded(parent: Awaited<ReturnType<typeof place>>["parent"]): Promise<string> {
  for await (const entry of parent.replies()) {
    await entry.ack();
    expect(entry, JSON.stringify(entry)).toMatchObject({ kind: "reply", status: "succeeded" });
    return entry.agent_id;
  }
  return "";
}

test("through the command line, which prints what is in force and goes on from what has ended", async () => {
  const { say, parent } = await place();
  const receipt = await say(
    "spawn",
    "Looks around",
    "--prompt",
    "say hello",
    "--agent",
    "explorer",
    "--json",
  );
  expect(receipt).toMatchObject({
    limits: { max_turns: 5 },
    in_force: { ...IN_FORCE, definition: "explorer" },
  });
  expect(await nextEnded(parent)).toBe(receipt.agent_id);
  const resumed = await say(
    "continue",
    receipt.agent_id,
    "And what else?",
    "--request-key",
    "once",
    "--json",
  );
  expect(resumed).toMatchObject({
    resumes: receipt.agent_id,
    run: 2,
    limits: { max_turns: 5 },
    in_force: IN_FORCE,
  });
  const again = await say("continue", receipt.agent_id, "And what else?", "--request-key", "once", "--json");
  expect(again).toMatchObject({ agent_id: resumed.agent_id, known: true });
  expect(await nextEnded(parent)).toBe(resumed.agent_id);
});

test("through MCP", async () => {
  const { env, view } = await place();
  const client = new Client({ name: "test", version: "1" });
  closeAtEnd(() => client.close());
  const args = [await bundled("src/cli/main.ts"), "mcp", "--parent", "planner-7"];
  const command = { command: process.execPath, args, env: { PATH: process.env.PATH ?? "", ...env } };
  await client.connect(new StdioClientTransport(command));
  const { content } = await client.callTool({ name: "spawn_sub_agent", arguments: { name: "By MCP" } });
  expect(JSON.stringify(content)).toContain("by_mcp");
  expect(await view("by_mcp")).toMatchObject({ limits: { max_turns: 5 } });
});

test("through a schedule and the intake of a worker, which knows the definitions too", async () => {
  const { stage, parent, view } = await place();
  const at = new Date(Date.now() + 100).toISOString();
  await parent.schedule({
    schedule_id: "once",
    at,
    prompt: "say hello",
    agent: "careful",
    name: "By schedule",
  });
  expect(await nextEnded(parent)).toBe("by_schedule");
  const wish = { v: "1", parent_id: "planner-7", prompt: "say hello", agent: "careful", name: "By intake" };
  await stage.redis.xadd(stage.keys.intake, "*", ...Object.entries(wish).flat());
  expect(await nextEnded(parent)).toBe("by_intake");
  for (const id of ["by_schedule", "by_intake"])
    expect(await view(id)).toMatchObject({ limits: { max_turns: 5 }, definition: "careful" });
});
