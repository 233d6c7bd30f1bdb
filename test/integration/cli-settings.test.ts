/** Guarantee: the operator's settings hold for all that a command begins, and for the worker that it starts. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Scenario } from "../../src/offline/server.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { askMcp, startMcpServer } from "../helpers/mcp.ts";
import { runHere, startHere } from "../helpers/program.ts";
import { placeOn } from "../helpers/program-on-stage.ts";
import { until } from "../helpers/until.ts";
import { openStage, type Stage } from "../stage/stage.ts";

const PRICE = { input: 1_000, output: 1_000, cache_read: 1_000, cache_write: 1_000 };
/** Bounds for agents, of which none is a default. */
const BOUNDS = {
  SUBAGENT_MODEL: "ours",
  SUBAGENT_PRICES: JSON.stringify({ ours: PRICE }),
  SUBAGENT_MAX_TURNS: "3",
  SUBAGENT_MAX_COST_USD: "4",
  SUBAGENT_BUDGET_AGENT_USD: "5",
  SUBAGENT_BUDGET_PARENT_USD: "6",
  SUBAGENT_BUDGET_TENANT_USD: "7",
};
const BOUND = {
  limits: { max_turns: 3, max_cost_usd: 4 },
  budgets: {
    agent: { max_cost_usd: 5 },
    parent: { max_cost_usd: 6 },
    tenant: { max_cost_usd: 7 },
  },
};

function folder(files: Record<string, string> = {}): string {
  const directory = mkdtempSync(join(tmpdir(), "settings-"));
  closeAtEnd(() => rmSync(directory, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(directory, name, ".."), { recursive: true });
    writeFileSync(join(directory, name), text);
  }
  return directory;
}

/** Runs the program on the stage with more variables; `cwd` is a directory of its own. */
function placeWith(stage: Stage, variables: Record<string, string>, cwd = folder()) {
  const place = placeOn(stage);
  return { cwd, env: { ...place.env, ...variables } };
}

/** The specifications of the live agents of a parent. */
async function specsOf({ store }: Stage, parentId: string, tenant = "default") {
  return (await store.liveRecords({ tenant, parentId })).map(({ spec }) => spec);
}

test("what spawn creates has the operator's limits, prices and budgets", async () => {
  const stage = await openStage();
  const { code, stderr } = await runHere(["spawn", "a"], placeWith(stage, BOUNDS));
  expect(code, stderr.join("\n")).toBe(0);
  expect(await specsOf(stage, "parent-0")).toMatchObject([BOUND]);
});

test("what the API and MCP create has them, too", async () => {
  const stage = await openStage();
  const api = startHere(["api", "--port", "0"], placeWith(stage, BOUNDS));
  const [, url = ""] = /ready: api (\S+)/.exec(await api.waitForLine(/^ready: /)) ?? [];
  const spawned = await fetch(`${url}/v1/parents/planner/agents`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ name: "a" }),
  });
  expect(spawned.status, await spawned.text()).toBe(201);
  const called = await askMcp(`${url}/mcp?parent=planner`, "tools/list", {});
  expect(called.error).toBeUndefined();
  expect(await specsOf(stage, "planner")).toMatchObject([BOUND]);
});

test("what the intake of a worker creates has them, too", async () => {
  const stage = await openStage({ latencyMs: 600_000 });
  const worker = startHere(
    ["worker"],
    placeWith(stage, { ...BOUNDS, ANTHROPIC_API_KEY: "k", ANTHROPIC_BASE_URL: stage.offline.url }),
  );
  await worker.waitForLine(/^ready: /);
  await stage.redis.xadd(stage.keys.intake, "*", "parent_id", "shell", "prompt", "hello");
  expect(await until(async () => (await specsOf(stage, "shell"))[0])).toMatchObject(BOUND);
});

test("replies that a command acks are kept as long as the operator says", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const parent = stage.parent("parent-0");
  const { agent_id } = await parent.spawn({ name: "a", request_key: "k" });
  await parent.send(agent_id, "hello");
  const [{ uid = "" } = {}] = await stage.store.liveRecords({ tenant: "default", parentId: "parent-0" });
  const address = { tenant: "default", parentId: "parent-0", uid };
  await until(async () => (await stage.store.record(address))?.status === "ended");
  await runHere(["replies", "--ack"], placeWith(stage, { SUBAGENT_KEPT_AFTER_ACK: "1h" }));
  const leftMs = await stage.redis.pttl(stage.keys.agent(address).record);
  expect(leftMs).toBeGreaterThan(0);
  expect(leftMs).toBeLessThanOrEqual(3_600_000);
});

/** Variables for a worker, each with an effect that a run shows. */
async function workerSettings(stage: Stage) {
  const mcp = await startMcpServer({
    "tools/list": () => ({ tools: [{ name: "look_up", inputSchema: { type: "object" } }] }),
  });
  return {
    ...BOUNDS,
    ANTHROPIC_API_KEY: "k",
    ANTHROPIC_BASE_URL: stage.offline.url,
    SUBAGENT_TRACE: "full",
    SUBAGENT_MCP: JSON.stringify({ mcpServers: { crm: { url: mcp.url } } }),
    SUBAGENT_SKILLS: folder({ "pdf/SKILL.md": "---\nname: pdf\ndescription: Fills forms.\n---\nFill.\n" }),
    SUBAGENT_BASH: "off",
  };
}

/** Resolves to the trace of an agent once it contains `text`. */
function traceWith(stage: Stage, reply: { parent_id: string; agent_id: string }, text: string) {
  const directory = join(stage.workspaceRoot, "default", reply.parent_id, "agents", reply.agent_id);
  return until(() => {
    const path = join(directory, "trace.jsonl");
    const trace = existsSync(path) ? readFileSync(path, "utf8") : "";
    return trace.includes(text) && trace;
  });
}

/** Expects that the settings had their effect on the one run of the stage. */
async function expectInForce(
  stage: Stage,
  reply: { parent_id: string; agent_id: string; cost_usd: number },
): Promise<void> {
  const [call] = stage.offline.ledger;
  expect(call?.model).toBe("ours");
  expect(call?.tools).toEqual(expect.arrayContaining(["mcp__crm__look_up", "skill"]));
  expect(reply.cost_usd).toBeGreaterThan(0.001);
  await traceWith(stage, reply, "hello");
}

test("the worker that run starts has the operator's tools, skills, prices and trace", async () => {
  const stage = await openStage();
  const place = placeWith(stage, await workerSettings(stage));
  const { code, stdout, stderr } = await runHere(["run", "hello", "--json"], place);
  expect(code, stderr.join("\n")).toBe(0);
  await expectInForce(stage, JSON.parse(stdout.join("")).replies[0]);
});

test("the verb worker has them, too, and runs at most SUBAGENT_CONCURRENCY agents at a time", async () => {
  const stage = await openStage();
  const settings = { ...(await workerSettings(stage)), SUBAGENT_CONCURRENCY: "7" };
  const worker = startHere(["worker"], placeWith(stage, settings));
  expect(await worker.waitForLine(/^ready: /)).toContain("up to 7 runs, ours");
  await expectInForce(stage, await stage.parent("parent-0", { model: "ours" }).task("hello"));
});

const readAndWrite = (path: string): Scenario => ({
  turns: [
    { content: [{ type: "tool_use", id: "toolu_1", name: "read_file", input: { file_path: path } }] },
    {
      content: [
        {
          type: "tool_use",
          id: "toolu_2",
          name: "write_file",
          input: { file_path: `${path}.new`, content: "x" },
        },
      ],
    },
    { content: [{ type: "text", text: "All done." }] },
  ],
});

test("run opens the directory in which it was called to be read, not written; a worker opens none by itself", async () => {
  const cwd = folder({ "note.txt": "the secret word" });
  const path = join(cwd, "note.txt");
  const stage = await openStage({ scenario: readAndWrite(path) });
  const settings = { ANTHROPIC_API_KEY: "k", ANTHROPIC_BASE_URL: stage.offline.url, SUBAGENT_TRACE: "full" };
  const place = placeWith(stage, settings, cwd);
  const ran = await runHere(["run", "hello", "--json"], place);
  expect(await traceWith(stage, JSON.parse(ran.stdout.join("")).replies[0], "All done.")).toContain(
    "the secret word",
  );
  expect(existsSync(`${path}.new`)).toBe(false);
  await startHere(["worker"], place).waitForLine(/^ready: /);
  const reply = await stage.parent("parent-0", { model: "ours" }).task("hello");
  expect(await traceWith(stage, reply, "All done.")).not.toContain("the secret word");
});
