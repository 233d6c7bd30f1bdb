/** One program for each door: gives one task to a sub-agent, and has its reply. The recipes run as they stand. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { Client as McpClient, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createAsyncSubAgentMiddleware } from "deepagents";
import { AGENT_PROTOCOL_PATH } from "../../src/service/agent-protocol/router.ts";
import { until } from "../helpers/until.ts";
import type { Stage } from "../stage/stage.ts";

/** What the model of these programs' sub-agents says. */
export const SAID = "hello from a sub-agent";

/** What a program got, and when (epoch ms). */
export interface ProgramReply {
  said: string;
  atMs: number;
}

/** A program that is given the address of an API. Rejects when that is killed meanwhile, and the program uses it. */
export type Program = (api: string) => Promise<ProgramReply>;

const RECIPES = join(import.meta.dirname, "..", "..", "examples", "recipes");

/** By name. `stage` has the prefix `saq`, as the recipes have; `token`: an API key of the tenant `default`. */
export function programsOf(stage: Stage, token: string): Readonly<Record<string, Program>> {
  const recipe =
    (...command: string[]): Program =>
    (api) =>
      runRecipe(command, {
        API: api,
        KEY: token,
        REDIS: stage.url.replace("redis://", ""),
        REDIS_URL: stage.url,
      });
  return {
    curl: recipe("sh", "curl.sh"),
    python: recipe("python3", "-I", "http.py"),
    perl: recipe("perl", "http.pl"),
    langchain: recipe(process.execPath, "--import", "tsx", "langchain.ts"),
    xadd: recipe("python3", "-I", "xadd.py"),
    mcp: (api) => runMcpClient(api, token),
    deepagents: (api) => runDeepagents(api, token),
    typescript: async () => {
      const { summary } = await stage.parent("typescript").task({ prompt: "say hello" });
      return { said: summary, atMs: Date.now() };
    },
  };
}

async function runRecipe(
  [program = "", ...args]: string[],
  env: Record<string, string>,
): Promise<ProgramReply> {
  const child = spawn(program, args, {
    cwd: RECIPES,
    env: { PATH: process.env.PATH, ...env },
    stdio: ["ignore", "pipe", "ignore"],
  });
  let [said, atMs] = ["", 0];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    if (said === "") atMs = Date.now();
    said += text;
  });
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`${program} ${args.join(" ")} ended with ${code}`);
  return { said, atMs };
}

async function runMcpClient(api: string, token: string): Promise<ProgramReply> {
  const headers = { Authorization: `Bearer ${token}` };
  const client = new McpClient({ name: "doors", version: "1" });
  try {
    const url = new URL(`${api}/mcp?parent=mcp-client`);
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
    const result = await client.callTool({ name: "task", arguments: { prompt: "say hello" } });
    return { said: JSON.stringify(result), atMs: Date.now() };
  } finally {
    await client.close();
  }
}

async function runDeepagents(api: string, token: string): Promise<ProgramReply> {
  const { tools = [] } = createAsyncSubAgentMiddleware({
    asyncSubAgents: [
      {
        name: "researcher",
        description: "Researches",
        graphId: "researcher",
        url: api + AGENT_PROTOCOL_PATH,
        headers: { authorization: `Bearer ${token}` },
      },
    ],
  });
  const state = { asyncTasks: {} };
  const use = async (name: string, args: object): Promise<string> => {
    const tool = tools.find((each) => each.name === name);
    // Each tool takes its own arguments; each is given its own.
    const runnable: { invoke(call: object, config: object): Promise<unknown> } = tool as never;
    const answer = await runnable.invoke({ type: "tool_call", id: "call", name, args }, { state });
    const { update } = answer as { update?: typeof state & { messages: { content: string }[] } };
    if (!update) throw new Error(JSON.stringify(answer));
    Object.assign(state.asyncTasks, update.asyncTasks);
    return String(update.messages[0]?.content);
  };
  await use("start_async_task", { agentName: "researcher", description: "Say hello" });
  const [taskId = ""] = Object.keys(state.asyncTasks);
  // A check that fails is an answer, too: its API has gone.
  const look = async () => {
    const said = await use("check_async_task", { taskId }).catch(String);
    return !said.includes('"running"') && !said.includes('"pending"') && { said, atMs: Date.now() };
  };
  const reply = await until(look, { timeoutMs: 30_000 });
  if (reply.said.includes(SAID)) return reply;
  throw new Error(reply.said);
}
