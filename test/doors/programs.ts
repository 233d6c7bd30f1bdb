/** One program per interface: it gives a task to a sub-agent and reads the reply. The recipes of `examples` run unchanged. */
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

/** The answer of the model to these programs' sub-agents. */
export const SAID = "hello from a sub-agent";

/** The reply that a program received, and its time (epoch ms). */
export interface ProgramReply {
  said: string;
  atMs: number;
}

/** A program that gets the URL of an API. Rejects if it uses the API and the API is killed meanwhile. */
export type Program = (api: string) => Promise<ProgramReply>;

const ROOT = join(import.meta.dirname, "..", "..");
const RECIPES = join(ROOT, "examples", "recipes");
const MAIN = join(ROOT, "dist", "cli", "main.js");

/** Returns the programs by name. `stage` must have the recipes' prefix `saq`; `token`: an API key of tenant `default`. */
export function programsOf(stage: Stage, token: string): Readonly<Record<string, Program>> {
  const address = { REDIS: stage.url.replace("redis://", ""), REDIS_URL: stage.url };
  // The workers of a stage announce no model.
  const env = { ...address, KEY: token, SUBAGENT_MODEL: "offline-1" };
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

/** Returns the shell script of the GitHub workflow's step. */
function workflowStep(): string {
  const { jobs } = parse(readFileSync(join(RECIPES, "workflow.yml"), "utf8"));
  return String(jobs.review.steps[0].run);
}

/** Runs the command of the crontab while this process waits for the reply in the parent's channel. */
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

/** Runs the ai-sdk recipe. Its own model answers at once, first with a tool call, then with the tool's result. */
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
    // The tools have different argument types, so the type of `args` is not checked.
    const runnable: { invoke(call: object, config: object): Promise<unknown> } = tool as never;
    const answer = await runnable.invoke({ type: "tool_call", id: "call", name, args }, { state });
    const { update } = answer as { update?: typeof state & { messages: { content: string }[] } };
    if (!update) throw new Error(JSON.stringify(answer));
    Object.assign(state.asyncTasks, update.asyncTasks);
    return String(update.messages[0]?.content);
  };
  await use("start_async_task", { agentName: "researcher", description: "Say hello" });
  const [taskId = ""] = Object.keys(state.asyncTasks);
  // A failed check ends the wait too: the API is gone.
  const look = async () => {
    const said = await use("check_async_task", { taskId }).catch(String);
    return !said.includes('"running"') && !said.includes('"pending"') && { said, atMs: Date.now() };
  };
  const reply = await until(look, { timeoutMs: 30_000 });
  if (reply.said.includes(SAID)) return reply;
  throw new Error(reply.said);
}
