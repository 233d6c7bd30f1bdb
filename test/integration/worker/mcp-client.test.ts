/** Guarantee: sub-agents use MCP servers over one shared connection each; a server that dies is a tool error, and comes back. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type McpServers, readMcpServers } from "../../../src/shared/mcp-server.ts";
import { createWorkerDirectory } from "../../../src/shared/redis/workers.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { spawnNode } from "../../helpers/processes.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { freePort } from "../../helpers/redis-server.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const ROOT = join(import.meta.dirname, "../../..");
const REFERENCE = join(ROOT, "node_modules/@modelcontextprotocol");
const everything = join(REFERENCE, "server-everything/dist/index.js");
const filesystem = join(REFERENCE, "server-filesystem/dist/index.js");

const text = (words: string) => ({ type: "text" as const, text: words });
const use = (name: string, input: Record<string, unknown>) => ({ type: "tool_use" as const, name, input });
const calls = (...content: ReturnType<typeof use>[]) => ({ content });
const lastResult = { content: [text("{{last_tool_result}}")] };

function servers(json: unknown): McpServers {
  const read = readMcpServers(JSON.stringify({ mcpServers: json }), {});
  if ("problem" in read) throw new TypeError(read.problem);
  return read.servers;
}

/** A worker with these servers, once everybody can see that it has all of their tools: a slow one is listed after its start. */
async function startWith(stage: Stage, json: Record<string, unknown>): Promise<void> {
  const worker = await stage.startWorker({ mcpServers: servers(json) });
  const directory = createWorkerDirectory(stage.redis, stage.keys);
  await until(async () => {
    const { tools = [] } = (await directory.list()).find(({ id }) => id === worker.id) ?? {};
    return Object.keys(json).every((name) => tools.some((tool) => tool.startsWith(`mcp__${name}__`)));
  });
}

async function scratch(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "mcp-client-"));
  closeAtEnd(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

test("a sub-agent reads and writes through the reference file server, within its allowlist", async () => {
  const directory = await scratch();
  await writeFile(join(directory, "in.txt"), "forty-two");
  const stage = await openStage({
    scenario: {
      turns: [
        calls(
          use("mcp__files__read_text_file", { path: join(directory, "in.txt") }),
          use("mcp__files__write_file", { path: join(directory, "out.txt"), content: "x" }),
        ),
        calls(use("mcp__files__read_text_file", { path: join(directory, "in.txt") })),
        lastResult,
      ],
    },
  });
  await startWith(stage, { files: { command: process.execPath, args: [filesystem, directory] } });
  const tools = ["mcp__files__read_text_file"];
  const reply = await stage.parent().task({ prompt: "work", tools });
  expect(reply).toMatchObject({ status: "succeeded", summary: "forty-two" });
  expect(stage.offline.ledger[0]?.tools).toEqual(tools);
  await expect(readFile(join(directory, "out.txt"))).rejects.toThrow(/ENOENT/);
});

test("an allowlist names all tools of a server at once", async () => {
  const stage = await openStage({ scenario: { turns: [lastResult] } });
  await startWith(stage, { all: { command: process.execPath, args: [everything] } });
  for (const name of ["mcp__all", "mcp__all__*"])
    await stage.parent().task({ prompt: "work", tools: [name] });
  for (const { tools } of stage.offline.ledger) {
    expect(tools).toContain("mcp__all__echo");
    expect(tools.every((tool) => tool.startsWith("mcp__all__"))).toBe(true);
  }
});

test("a server that is killed during a call is a tool error; the next call has a new one", async () => {
  const script = join(import.meta.dirname, "../../helpers/fixtures/fragile-mcp-server.mjs");
  const stage = await openStage({
    scenario: {
      turns: [
        calls(use("mcp__fragile__pid", {})),
        calls(use("mcp__fragile__die", {})),
        calls(use("mcp__fragile__pid", {})),
        lastResult,
      ],
    },
  });
  await startWith(stage, { fragile: { command: process.execPath, args: [script] } });
  const reply = await stage.parent().task({ prompt: "work" });
  expect(reply).toMatchObject({
    status: "succeeded",
    tools_called: { mcp__fragile__pid: 2, mcp__fragile__die: 1 },
  });
  const timeline = await stage.parent().timeline(reply.agent_id);
  const errors = timeline.flatMap((event) => (event.type === "tool_finished" ? [event.is_error] : []));
  expect(errors).toEqual([false, true, false]);
  expect(Number(reply.summary)).toBeGreaterThan(0);
});

test("a server is started for its list alone, with few variables, and one that does not start again is not available", async () => {
  const directory = await scratch();
  const [often, once] = [join(directory, "often"), join(directory, "once")];
  const pids = async (file: string) => (await readFile(file, "utf8")).trim().split("\n").map(Number);
  const turns = ["often__environment", "once__pid"].map((name) => calls(use(`mcp__${name}`, {})));
  const stage = await openStage({ scenario: { turns: [...turns, lastResult] } });
  const { model, heads } = recordingModel(stage.offline.url);
  process.env.SHOP_TOKEN = "tok-4f1d9a7be2";
  closeAtEnd(() => void Reflect.deleteProperty(process.env, "SHOP_TOKEN"));
  const script = join(import.meta.dirname, "../../helpers/fixtures/fragile-mcp-server.mjs");
  const server = (file: string, most: number) => ({
    command: process.execPath,
    args: [script, file, `${most}`],
  });
  const worker = { mcpServers: servers({ often: server(often, 9), once: server(once, 1) }) };
  await stage.startWorker({ model, ...worker });
  const [listing = 0] = await pids(often);
  await until(() => !isAlive(listing));
  const { summary } = await stage.parent().task("work");
  expect(heads[1]?.messages).toContain("PATH");
  expect(heads[1]?.messages).not.toContain("SHOP_TOKEN");
  expect(summary).toBe("once is not available. Go on without it.");
  expect(await pids(once)).toHaveLength(2);
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

test("a server that cannot be started keeps nobody waiting: its worker works without it", async () => {
  const stage = await openStage({ scenario: { turns: [calls(use("mcp__gone__x", {})), lastResult] } });
  await stage.startWorker({ mcpServers: servers({ gone: { command: "/no/such/program" } }) });
  const reply = await stage.parent().task({ prompt: "work" });
  expect(reply.summary).toContain("There is no tool named");
});

test("a call that takes too long ends as a tool error", async () => {
  const slow = "mcp__all__trigger-long-running-operation";
  const stage = await openStage({
    scenario: { turns: [calls(use(slow, { duration: 30, steps: 2 })), lastResult] },
  });
  const all = { command: process.execPath, args: [everything], timeout_ms: 500 };
  await startWith(stage, { all });
  const reply = await stage.parent().task({ prompt: "work", tools: [slow] });
  expect(reply.summary).toContain("did not answer within 0.5 s");
});

test("more than thirty tools are searched, not listed, and a call counts as one of the tool that it names", async () => {
  const directory = await scratch();
  const stage = await openStage({
    scenario: {
      turns: [
        calls(use("find_tools", { query: "echo a message" })),
        calls(use("use_tool", { name: "mcp__all__echo", input: { message: "hello" } })),
        lastResult,
      ],
    },
  });
  const one = { command: process.execPath, args: [everything] };
  const two = { command: process.execPath, args: [filesystem, directory] };
  await startWith(stage, { all: one, again: one, files: two });
  const reply = await stage.parent().task({ prompt: "work" });
  expect(reply.summary).toContain("hello");
  expect(reply.tools_called).toEqual({ find_tools: 1, mcp__all__echo: 1 });
  const listed = stage.offline.ledger[0]?.tools ?? [];
  expect(listed).toEqual(expect.arrayContaining(["find_tools", "use_tool", "read_file"]));
  expect(listed.some((name) => name.startsWith("mcp__"))).toBe(false);
});

test("a server is reached by streamable HTTP as well", async () => {
  const port = await freePort();
  const http = await spawnNode(everything, { args: ["streamableHttp"], env: { PORT: String(port) } });
  await http.waitForLine(/listening on port/i);
  const stage = await openStage({
    scenario: { turns: [calls(use("mcp__far__echo", { message: "over the wire" })), lastResult] },
  });
  await startWith(stage, { far: { url: `http://127.0.0.1:${port}/mcp` } });
  const reply = await stage.parent().task({ prompt: "work", tools: ["mcp__far__echo"] });
  expect(reply.summary).toContain("over the wire");
});
