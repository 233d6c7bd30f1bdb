/** Five interfaces ("doors") to spawn a sub-agent, and five to observe it, answer its question and read its reply. */
import { Client as LangGraphClient } from "@langchain/langgraph-sdk";
import { AGENT_PROTOCOL_PATH } from "../../src/service/agent-protocol/router.ts";
import { replyIdOf } from "../../src/shared/protocol/keys.ts";
import { ask } from "../helpers/api.ts";
import { askMcp } from "../helpers/mcp.ts";
import { spawnBuilt } from "../helpers/processes.ts";
import { until } from "../helpers/until.ts";
import type { Stage } from "../stage/stage.ts";

/** Prompt of a sub-agent that asks which colour to use. */
export const ASKING = "Ask for a colour, then paint.";
const PLAIN = "Paint it.";
const ASK_TOOL = "ask_parent";
const TENANT = "default";

/** A stage and its API. */
export interface Doors {
  stage: Stage;
  /** `http://127.0.0.1:41234`, with MCP and the Agent Protocol. */
  api: string;
}

/** Gives a task to a new sub-agent of a parent; resolves to its agent id, derived from `name` if the door accepts a name. */
export type SpawnDoor = (doors: Doors, parentId: string, name: string) => Promise<string>;

/** Operations on an existing sub-agent of a parent. */
export interface ReadDoor {
  /** Resolves when the agent shows an open question. */
  seesQuestion(doors: Doors, parentId: string, agentId: string): Promise<unknown>;
  answers(doors: Doors, parentId: string, agentId: string, text: string): Promise<unknown>;
  /** Waits for the reply and acks it if the door can; resolves to its text. */
  takes(doors: Doors, parentId: string, agentId: string): Promise<string>;
  destroys(doors: Doors, parentId: string, agentId: string): Promise<unknown>;
}

const agents = ({ api }: Doors, parentId: string) => `${api}/v1/parents/${parentId}/agents`;
const mcp = ({ api }: Doors, parentId: string) => `${api}/mcp?parent=${parentId}`;

/** Spawn doors by name. The Agent Protocol has no way to allow questions, so its sub-agents do not ask. */
export const SPAWN_DOORS: Readonly<Record<string, { spawn: SpawnDoor; asks: boolean }>> = {
  typescript: {
    asks: true,
    async spawn({ stage }, parentId, name) {
      const parent = stage.parent(parentId);
      const { agent_id } = await parent.spawn({ name, tools: [ASK_TOOL] });
      await parent.send(agent_id, ASKING);
      return agent_id;
    },
  },
  http: {
    asks: true,
    async spawn({ api }, parentId, name) {
      const body = { name, prompt: ASKING, tools: [ASK_TOOL] };
      return (await ask(`${api}/v1/parents/${parentId}/tasks`, "POST", { body })).body.agent_id;
    },
  },
  mcp: {
    asks: true,
    async spawn(doors, parentId) {
      const input = { prompt: ASKING, tool_allowlist: [ASK_TOOL] };
      await askMcp(mcp(doors, parentId), "tools/call", { name: "agent", arguments: input });
      return "agent";
    },
  },
  agent_protocol: {
    asks: false,
    async spawn({ api }, parentId, name) {
      const apiUrl = api + AGENT_PROTOCOL_PATH;
      const client = new LangGraphClient({
        apiUrl,
        apiKey: null,
        defaultHeaders: { "x-parent-id": parentId },
      });
      const { thread_id } = await client.threads.create();
      const input = { messages: [{ role: "user", content: PLAIN }] };
      await client.runs.create(thread_id, name, { input });
      return name;
    },
  },
  xadd: {
    asks: true,
    async spawn({ stage }, parentId, name) {
      const fields = { parent_id: parentId, name, prompt: ASKING, tools: ASK_TOOL };
      await stage.redis.xadd(stage.keys.intake, "*", ...Object.entries(fields).flat());
      await until(() => uidOf(stage, parentId, name));
      return name;
    },
  },
};

/** Read doors by name. */
export const READ_DOORS: Readonly<Record<string, ReadDoor>> = {
  typescript: {
    seesQuestion: ({ stage }, parentId, agentId) =>
      until(async () => (await stage.parent(parentId).get(agentId)).questions?.length),
    answers: ({ stage }, parentId, agentId, text) => stage.parent(parentId).answer(agentId, text),
    takes: async ({ stage }, parentId, agentId) =>
      (await stage.parent(parentId).waitAny([agentId], { timeout_ms: 15_000 }))?.summary ?? "",
    destroys: ({ stage }, parentId, agentId) => stage.parent(parentId).destroy(agentId),
  },
  http: {
    seesQuestion: (doors, parentId, agentId) =>
      until(
        async () => (await ask(`${agents(doors, parentId)}/${agentId}`, "GET")).body.status === "waiting",
      ),
    answers: (doors, parentId, agentId, text) =>
      ask(`${agents(doors, parentId)}/${agentId}/answers`, "POST", { body: { text } }),
    async takes({ api }, parentId, agentId) {
      const replies = `${api}/v1/parents/${parentId}/replies`;
      const entry = await until(async () => {
        const { body } = await ask(`${replies}?wait=5`, "GET");
        return body.replies.find(
          (each: { agent_id: string; kind: string }) => each.agent_id === agentId && each.kind === "reply",
        );
      });
      await ask(`${replies}/ack`, "POST", { body: { reply_ids: [entry.reply_id] } });
      return entry.summary;
    },
    destroys: (doors, parentId, agentId) => ask(`${agents(doors, parentId)}/${agentId}`, "DELETE"),
  },
  mcp_tools: {
    seesQuestion: (doors, parentId, agentId) =>
      until(async () => (await check(doors, parentId, agentId)).includes("<sub_agent_question")),
    answers: (doors, parentId, agentId, text) =>
      useTool(doors, parentId, "send_agent_message", { target_agent_id: agentId, message: text }),
    takes: (doors, parentId, agentId) =>
      until(async () => {
        const report = await check(doors, parentId, agentId);
        return report.includes("<sub_agent_reply") && report;
      }),
    destroys: (doors, parentId, agentId) =>
      useTool(doors, parentId, "destroy_sub_agent", { agent_id: agentId }),
  },
  mcp_tasks: {
    seesQuestion: (doors, parentId, agentId) =>
      until(async () => (await getTask(doors, parentId, agentId)).status === "input_required"),
    async answers(doors, parentId, agentId, text) {
      const { taskId, inputRequests } = await getTask(doors, parentId, agentId);
      const [key = ""] = Object.keys(inputRequests ?? {});
      const inputResponses = { [key]: { action: "accept", content: { answer: text } } };
      await askMcp(mcp(doors, parentId), "tasks/update", { taskId, inputResponses });
    },
    takes: (doors, parentId, agentId) =>
      until(async () => {
        const { status, result } = await getTask(doors, parentId, agentId);
        return status === "completed" && JSON.stringify(result);
      }),
    async destroys(doors, parentId, agentId) {
      const { taskId } = await getTask(doors, parentId, agentId);
      await askMcp(mcp(doors, parentId), "tasks/cancel", { taskId });
    },
  },
  // Each call starts a process, so the command runs only after the state has been reached.
  command_line: {
    async seesQuestion(doors, parentId, agentId) {
      await until(async () => (await doors.stage.parent(parentId).get(agentId)).status === "waiting");
      const listed = await command(doors, "list", "--parent", parentId, "--json");
      if (!listed.includes(`"${agentId}"`)) throw new Error(`${agentId} is not in ${listed}`);
    },
    answers: (doors, parentId, agentId, text) =>
      command(doors, "answer", agentId, text, "--parent", parentId),
    async takes(doors, parentId, agentId) {
      await until(async () => (await doors.stage.parent(parentId).get(agentId)).status === "ended");
      const shown = await command(doors, "show", agentId, "--parent", parentId, "--json");
      await command(doors, "replies", "--ack", "--parent", parentId, "--json");
      return shown;
    },
    destroys: (doors, parentId, agentId) => command(doors, "destroy", agentId, "--parent", parentId),
  },
};

/** Returns the uid of an agent id; null if there is none yet. */
function uidOf(stage: Stage, parentId: string, agentId: string): Promise<string | null> {
  return stage.redis.hget(stage.keys.parent({ tenant: TENANT, parentId }).registry, agentId);
}

async function useTool(doors: Doors, parentId: string, name: string, input: object): Promise<string> {
  const options = { followsTasks: false };
  const { result } = await askMcp(mcp(doors, parentId), "tools/call", { name, arguments: input }, options);
  return JSON.stringify(result?.content);
}

const check = (doors: Doors, parentId: string, agentId: string) =>
  useTool(doors, parentId, "check_sub_agent", { agent_id: agentId });

async function getTask(doors: Doors, parentId: string, agentId: string): Promise<Record<string, unknown>> {
  const taskId = replyIdOf((await uidOf(doors.stage, parentId, agentId)) ?? "", 1);
  const { result } = await askMcp(mcp(doors, parentId), "tasks/get", { taskId });
  return result ?? {};
}

async function command({ stage }: Doors, ...args: string[]): Promise<string> {
  const env = { REDIS_URL: stage.url, SUBAGENT_PREFIX: stage.prefix, ANTHROPIC_API_KEY: undefined };
  const process = await spawnBuilt(args, { env });
  await process.closed;
  return process.stdout.join("\n");
}
