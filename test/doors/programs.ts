/** One program for each door: gives one task to a sub-agent, and has its reply. The recipes run as they stand. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  Client as McpClient,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createAsyncSubAgentMiddleware } from "deepagents";
import { parse } from "yaml";
import { createOfflineModel } from "../../src/offline/server.ts";
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

const ROOT = join(import.meta.dirname, "..", "..");
const RECIPES = join(ROOT, "examples", "recipes");
const MAIN = join(ROOT, "dist", "cli", "main.js");

/** By name. `stage` has the prefix `saq`, as the recipes have; `token`: an API key of the tenant `default`. */
export function programsOf(stage: Stage, token: string): Readonly<Record<string, Program>> {
  const env = { REDIS: stage.url.replace("redis://", ""), REDIS_URL: stage.url, KEY: token };
  const recipe =
    (...command: string[]): Program =>
    (api) =>
      runRecipe(command, { ...env, API: api });
  return {
    curl: recipe("sh", "curl.sh"),
    python: recipe("python3", "task.py"),
    perl: recipe("perl", "http.pl"),
    workflow: recipe("sh", "-c", workflowStep()),
    cron: () => runCron(stage, env),
    "ai-sdk": () => runAiSdk(env),
    langchain: recipe(process.execPath, "--import", "tsx", "langchain.ts"),
    xadd: recipe("python3", "xadd.py"),
    mcp: (api) => {
      const headers = { Authorization: `Bearer ${token}` };
      const url = new URL(`${api}/mcp?parent=mcp-client`);
      return runMcpClient(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
    },
    "mcp-stdio": () => {
      const args = [MAIN, "mcp", "--parent", "mcp-stdio"];
      return runMcpClient(new StdioClientTransport({ command: process.execPath, args, env }));
    },
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

/** What the step of the GitHub workflow gives to its shell. */
function workflowStep(): string {
  const { jobs } = parse(readFileSync(join(RECIPES, "workflow.yml"), "utf8"));
  return String(jobs.review.steps[0].run);
}

/** The command of the crontab, and a program that waits at the channel of its parent. */
async function runCron(stage: Stage, env: Record<string, string>): Promise<ProgramReply> {
  const line = /^\d.*$/m.exec(readFileSync(join(RECIPES, "crontab"), "utf8"))?.[0] ?? "";
  const [program, ...words] = line.split(/\s+/).slice(5);
  if (program !== "subagent-queue") throw new Error(`not a line of crontab for subagent-queue: ${line}`);
  const replies = stage.parent("cron").replies();
  const first = replies[Symbol.asyncIterator]().next();
  const arrived = first.then(({ value }) => ({ said: JSON.stringify(value), atMs: Date.now() }));
  await runRecipe(["sh", "-c", `'${process.execPath}' '${MAIN}' ${words.join(" ")}`], env);
  const { value } = await first;
  await value?.ack();
  return arrived;
}

/** An agent whose model answers at once; its first word comes after one more call of that model. */
async function runAiSdk(env: Record<string, string>): Promise<ProgramReply> {
  const model = createOfflineModel({
    scenario: {
      turns: [
        { content: [{ type: "tool_use", name: "task", input: { prompt: "say hello" } }] },
        { content: [{ type: "text", text: "It said: {{last_tool_result}}" }] },
      ],
    },
  });
  await model.start();
  try {
    return await runRecipe([process.execPath, "--import", "tsx", "ai-sdk.ts"], {
      ...env,
      ANTHROPIC_BASE_URL: model.url,
      ANTHROPIC_API_KEY: "offline",
    });
  } finally {
    await model.stop();
  }
}

async function runMcpClient(transport: Transport): Promise<ProgramReply> {
  const client = new McpClient({ name: "doors", version: "1" });
  try {
    await client.connect(transport);
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
