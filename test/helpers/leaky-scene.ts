/**
 * Runs a worker with four secrets. Its model, tools, hooks, MCP servers and provider send all of them, in all spellings, in
 * every field they can fill. The scene records all output by channel.
 */
import { createServer } from "node:http";
import { join } from "node:path";
import { Redis } from "ioredis";
import { z } from "zod";
import type { Parent } from "../../src/producer/parent.ts";
import { createWebhookPush } from "../../src/service/webhooks/push.ts";
import { createLogger } from "../../src/shared/logger.ts";
import { readMcpServers } from "../../src/shared/mcp-server.ts";
import { createAnthropicModel } from "../../src/worker/model/anthropic/model.ts";
import type { Model } from "../../src/worker/model/model.ts";
import { requestBody } from "../../src/worker/model/request.ts";
import { defineTool } from "../../src/worker/tools/tool.ts";
import { openStage, type Stage } from "../stage/stage.ts";
import { closeAtEnd } from "./cleanup.ts";
import { listenUntilEnd } from "./listen.ts";
import { testParent } from "./parents.ts";
import { startPrivateRedis } from "./redis.ts";

/** The secrets that must not appear in any output. */
export const SECRETS = {
  provider: "sk-ant-api03-Zx81nQ42kLm90pRt",
  redis: "re/dis@p:ss+w0rd=77",
  mcpHeader: "hdr/Tok3n-55aa66bb77",
  mcpVariable: 'env"Tok3n+88cc99dd00',
} as const;

/** Each secret in each spelling, with a name of the spelling. */
const SPELLED: readonly (readonly [string, string])[] = Object.entries(SECRETS).flatMap(([name, value]) => [
  [name, value],
  [`${name} in JSON`, JSON.stringify(value).slice(1, -1)],
  [`${name} in a URL`, encodeURIComponent(value)],
  [`${name} in base64`, Buffer.from(value).toString("base64").replace(/=+$/, "")],
  [`${name} in base64 for URLs`, Buffer.from(value).toString("base64url")],
  [`${name} in hexadecimal digits`, Buffer.from(value).toString("hex")],
]);

/** All spellings in one text, which the model and the tools return. */
export const LEAK = SPELLED.map(([, spelling]) => spelling).join("\n");
const KEY = SECRETS.provider;

/** Returns the secrets that `text` contains, also inside JSON, each with the text around it. */
export function shownIn(text: string): string[] {
  return SPELLED.flatMap(([name, spelling]) => {
    const at = text.indexOf(spelling);
    return at < 0 ? [] : [`${name}: ${JSON.stringify(text.slice(Math.max(0, at - 90), at + 30))}`];
  });
}

const use = (name: string, input: Record<string, unknown> = {}, id?: string) => ({
  type: "tool_use" as const,
  name,
  input,
  ...(id !== undefined && { id }),
});
const says = (text: string) => ({ type: "text" as const, text });
const SAID = JSON.stringify({ found: LEAK });

/** The model's turns, chosen by words of the prompt. */
const SCENARIO = [
  {
    match: { user: "say everything" },
    turns: [
      {
        content: [
          { type: "thinking" as const, thinking: LEAK },
          says(LEAK),
          use("tell", { text: LEAK }),
          use("tell", { text: { [LEAK]: [LEAK] } }),
          use("throws"),
          use("throws_no_error"),
          use("blocked"),
          use(KEY, { [KEY]: KEY }, `toolu_${KEY}`),
          use("write_file", { file_path: `${KEY}.txt`, content: LEAK }),
          use("read_file", { file_path: LEAK }),
          use("grep", { pattern: `(${LEAK}` }),
          use("glob", { pattern: `${KEY}/[` }),
          use("mcp__leaky__tell", { x: LEAK }),
          use("mcp__leaky__fail"),
          use("mcp__leaky__refuse"),
          use("send_agent_message", { target_agent_id: "parent", message: LEAK }),
          use("send_agent_message", { target_agent_id: KEY, message: LEAK }),
        ],
      },
      { content: [use("mcp__leaky__die"), use("ask_parent", { question: LEAK, default_answer: LEAK })] },
      { content: [says(LEAK.repeat(10))] },
    ],
  },
  { match: { user: "fit the schema" }, turns: [{ content: [says(SAID)] }] },
  { match: { user: "miss the schema" }, turns: [{ content: [says(LEAK)] }], repeat: true },
  { match: { user: "be refused" }, turns: [{ error: { status: 400, message: LEAK } }] },
  { match: { user: "be unknown" }, turns: [{ error: { status: 404, type: KEY, message: LEAK } }] },
  { match: { user: "stop oddly" }, turns: [{ content: [says(LEAK)], stop_reason: KEY }] },
  { match: { user: "be stopped" }, turns: [{ content: [says("stop me")] }] },
];
const SCHEMA = { type: "object", properties: { found: { type: "string" } }, required: ["found"] };

const tools = [
  defineTool({
    name: "tell",
    description: "Says what it was told, and all that it knows.",
    input: z.object({ text: z.string() }),
    run: async ({ text }) => `${text} ${LEAK}`,
  }),
  defineTool({
    name: "throws",
    description: "Fails.",
    input: z.object({}),
    run: () => Promise.reject(Object.assign(new Error(LEAK, { cause: new Error(LEAK) }), { code: KEY })),
  }),
  defineTool({
    name: "throws_no_error",
    description: "Fails with what is no error.",
    input: z.object({}),
    run: () => Promise.reject(Object.freeze({ [KEY]: LEAK, toString: () => LEAK })),
  }),
  defineTool({ name: "blocked", description: "Is blocked.", input: z.object({}), run: async () => "" }),
];

const hooks = [
  {
    name: "guard",
    preToolUse: ({ tool }: { tool: string }) => (tool === "blocked" ? { block: LEAK } : undefined),
    postToolUse: ({ tool }: { tool: string }) => (tool === "tell" ? { context: LEAK } : undefined),
    subagentStart: () => ({ context: LEAK }),
    subagentStop({ summary }: { summary: string }) {
      if (summary === "stop me") throw new Error(LEAK);
      return undefined;
    },
  },
];

function mcpServers() {
  const script = join(import.meta.dirname, "fixtures/leaky-mcp-server.mjs");
  const env = { LEAK: Buffer.from(LEAK).toString("base64"), API_TOKEN: SECRETS.mcpVariable };
  const server = { command: process.execPath, args: [script], env };
  const headers = { Authorization: `Bearer ${SECRETS.mcpHeader}` };
  const all = {
    leaky: server,
    dying: { ...server, args: [script, "--die"] },
    far: { url: "http://127.0.0.1:9/mcp", headers },
  };
  const read = readMcpServers(JSON.stringify({ mcpServers: all }), {});
  if ("problem" in read) throw new Error(read.problem);
  return read.servers;
}

/** Returns the real model port, which passes the body of each request to `hear`. */
function listeningModel(baseUrl: string, hear: (body: string) => void): Model {
  const real = createAnthropicModel({ apiKey: KEY, baseUrl });
  closeAtEnd(() => real.stop());
  return {
    limiterName: (id) => real.limiterName?.(id) ?? id,
    stop: () => real.stop(),
    call(request, control) {
      hear(requestBody(request, false));
      return real.call(request, control);
    },
  };
}

/** The scene after all runs, with its recorded output. */
export interface LeakyScene {
  stage: Stage;
  /** URL of Redis with user and password. */
  url: string;
  parent: Parent;
  /** The agents, in the order in which they ended. */
  agents: readonly string[];
  /** All output, by channel: published, requests, logs, webhooks, metrics. */
  out: Map<string, string[]>;
}

/** Opens the scene and waits until all runs have ended. Acks no reply. */
export async function openLeakyScene(): Promise<LeakyScene> {
  const out = new Map<string, string[]>();
  const hear = (way: string) => (text: string) => void out.set(way, [...(out.get(way) ?? []), text]);
  const server = await startPrivateRedis();
  const stage = await openStage({ redis: server, scenario: SCENARIO });
  await stage.redis.call("ACL", "SETUSER", "leaky", "on", `>${SECRETS.redis}`, "~*", "&*", "+@all");
  const url = `redis://leaky:${encodeURIComponent(SECRETS.redis)}@127.0.0.1:${server.port}`;
  const listener = new Redis(server.port);
  closeAtEnd(() => listener.disconnect());
  listener.on("pmessage", (_pattern, channel: string, message: string) =>
    hear("published")(`${channel} ${message}`),
  );
  await listener.psubscribe("*");
  const worker = await stage.startWorker({
    ...{ redisUrl: url, tools, hooks, mcpServers: mcpServers(), trace: "full", metrics: true },
    model: listeningModel(stage.offline.url, hear("requests")),
    logger: createLogger({ level: "trace", destination: { write: hear("logs") } }),
  });
  const parent = testParent(stage.client({ workspaceRoot: stage.workspaceRoot }), { transcript_ms: 600_000 });
  // A subscriber listens to the events, so that text is streamed too.
  const watching = parent.events()[Symbol.asyncIterator]();
  const watched = watching.next();
  await startReceiver(stage, hear("webhooks"));
  const agents = await sayEverything(stage, parent);
  await watched;
  hear("metrics")((await worker.metrics())?.text ?? "");
  return { stage, url, parent, agents, out };
}

/** Starts an agent of another parent, whose replies are pushed to a webhook. */
async function startReceiver(stage: Stage, hear: (text: string) => void): Promise<void> {
  const receiver = createServer((request, response) => {
    hear(JSON.stringify(request.headers));
    request.on("data", (bytes: Buffer) => hear(bytes.toString()));
    request.on("end", () => response.writeHead(200).end());
  });
  const pushed = stage.parent("pushed");
  await pushed.webhook.set({ url: `${await listenUntilEnd(receiver)}/` });
  const push = createWebhookPush({ client: stage.client(), reach: "any", backoffMs: 20 });
  closeAtEnd(() => push.stop());
  push.start();
  const { agent_id } = await pushed.spawn({ name: "pushed", answer_within_ms: 1 });
  await pushed.send(agent_id, "say everything");
}

async function sayEverything(_stage: Stage, parent: Parent): Promise<string[]> {
  const asked = [
    ["say everything", {}],
    ["fit the schema", { output_schema: SCHEMA }],
    ["miss the schema", { output_schema: SCHEMA }],
    ["be refused", {}],
    ["be unknown", {}],
    ["stop oddly", {}],
    ["be stopped", {}],
  ] as const;
  for (const [prompt, more] of asked) {
    const { agent_id } = await parent.spawn({ name: prompt, answer_within_ms: 1, ...more });
    await parent.send(agent_id, prompt);
  }
  const ended: string[] = [];
  for await (const entry of parent.replies()) {
    if (entry.kind === "reply" || entry.kind === "ended") ended.push(entry.agent_id);
    if (ended.length === asked.length) break;
  }
  return ended;
}
