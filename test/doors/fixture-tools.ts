/**
 * Serves the tools that the official MCP conformance suite calls. Each translates to a tool call on a real `/mcp`.
 *
 * 1. Names and arguments of `tools/call` are translated. Only two answers come from here, because our tools cannot give
 *    them: the list of tools, and the first round of a tool that asks before it begins. Other answers pass unchanged.
 * 2. None of our tools requires a client that follows tasks. The suite's tool that does is replaced by `tasks/get`, which
 *    requires it too.
 */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { z } from "zod";
import type { Scenario } from "../../src/offline/server.ts";
import { listenUntilEnd } from "../helpers/listen.ts";

const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
const TASKS = "io.modelcontextprotocol/tasks";
const MISSING = "tasks-of-nobody";

const Message = z.looseObject({
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string(),
  params: z
    .looseObject({
      name: z.string().optional(),
      arguments: z.record(z.string(), z.unknown()).optional(),
      inputResponses: z
        .record(z.string(), z.looseObject({ content: z.record(z.string(), z.unknown()).optional() }))
        .optional(),
      _meta: z.record(z.string(), z.unknown()).optional(),
    })
    .optional(),
});
type Message = z.infer<typeof Message>;

const ask = (question: string) => ({ type: "tool_use" as const, name: "ask_parent", input: { question } });
const text = (said: string) => ({ type: "text" as const, text: said });

/** The model's answers to the prompts of the tools. */
export const FIXTURE_SCENARIO: Scenario = [
  { match: { user: "fail" }, turns: [{ content: [], stop_reason: "refusal", latencyMs: 500 }] },
  {
    match: { user: "confirm" },
    turns: [{ content: [ask("Delete it?")] }, { content: [text("deleted")] }],
  },
  {
    match: { user: "both" },
    turns: [{ content: [ask("First name?"), ask("Last name?")] }, { content: [text("known")] }],
  },
  ...[0, 1, 2, 60].map((seconds) => ({
    match: { user: { regex: `for ${seconds} s` } },
    turns: [{ content: [text("computed")], latencyMs: seconds * 1_000 }],
  })),
  { match: { user: "Hello, sep-2243!" }, turns: [{ content: [text("Hello, sep-2243!")] }] },
  { match: { user: "Hello, Alice!" }, turns: [{ content: [text("Hello, Alice!")] }] },
  { turns: [{ content: [text("Hello!")] }] },
];

/** A `tools/call` of the real `/mcp`. */
interface OwnCall {
  name: "task" | "agent";
  arguments: Record<string, unknown>;
}

const asking = { tool_allowlist: ["ask_parent"] };
const OWN_CALLS: Readonly<Record<string, (input: Record<string, unknown>) => OwnCall>> = {
  greet: ({ name }) => ({ name: "task", arguments: { prompt: `Hello, ${name}!` } }),
  slow_compute: ({ seconds }) => ({ name: "task", arguments: { prompt: `Compute for ${seconds} s` } }),
  failing_job: () => ({ name: "task", arguments: { prompt: "fail" } }),
  protocol_error_job: () => ({ name: "task", arguments: { prompt: "Hello" } }),
  confirm_delete: () => ({ name: "agent", arguments: { prompt: "confirm", ...asking } }),
  multi_input: () => ({ name: "agent", arguments: { prompt: "both", ...asking } }),
  test_tool_with_task: ({ name }) => ({ name: "task", arguments: { prompt: `Hello, ${name}!` } }),
};

/** Options of {@link startFixtureTools}. */
export interface FixtureOptions {
  /** URL of the real `/mcp`, with its `parent` parameter. */
  target: URL;
  /** Waits until the task has ended, and deletes its reply. */
  loseReply(taskId: string): Promise<void>;
}

/** Starts the server; resolves to its URL. The test's end closes it. */
export async function startFixtureTools(options: FixtureOptions): Promise<string> {
  const server = createServer((request, response) => {
    serve(options, request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  return `${await listenUntilEnd(server)}/mcp`;
}

async function serve(
  options: FixtureOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let body = "";
  for await (const chunk of request.setEncoding("utf8")) body += chunk;
  const asked = body === "" ? undefined : Message.parse(JSON.parse(body));
  if (
    asked?.method === "tools/call" &&
    asked.params?.name === "test_tool_with_task" &&
    !asked.params.inputResponses
  )
    return answer(response, asked, FIRST_ROUND);
  const { message, headers } = translated(asked, request.headers);
  const answered = await fetch(options.target, {
    method: request.method ?? "GET",
    headers,
    ...(message !== undefined && { body: JSON.stringify(message) }),
  });
  const said = await answered.text();
  if (asked?.method === "tools/list") return answer(response, asked, TOOLS);
  if (asked?.params?.name === "protocol_error_job") {
    const taskId = /"taskId":"([^"]+)"/.exec(said)?.[1];
    if (taskId) await options.loseReply(taskId);
  }
  const type = answered.headers.get("content-type");
  response.writeHead(answered.status, type === null ? {} : { "content-type": type }).end(said);
}

const FIRST_ROUND = {
  resultType: "input_required",
  inputRequests: {
    user_name: {
      method: "elicitation/create",
      params: {
        mode: "form",
        message: "What is your name?",
        requestedSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
      },
    },
  },
};

const TOOLS = {
  resultType: "complete",
  tools: Object.keys(OWN_CALLS).map((name) => ({ name, inputSchema: { type: "object" } })),
};

function answer(response: ServerResponse, { id }: Message, result: object): void {
  response
    .writeHead(200, { "content-type": "application/json" })
    .end(JSON.stringify({ jsonrpc: "2.0", id, result }));
}

function translated(
  asked: Message | undefined,
  { host: _, connection: __, "content-length": ___, ...rest }: IncomingHttpHeaders,
): { message: unknown; headers: Record<string, string> } {
  const headers = Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, String(value)]));
  const own = asked?.method === "tools/call" ? OWN_CALLS[asked.params?.name ?? ""] : undefined;
  if (!asked?.params || !own) return { message: asked, headers };
  const { name = "", arguments: input = {}, inputResponses, _meta = {}, ...params } = asked.params;
  const followsTasks = JSON.stringify(_meta[CAPABILITIES] ?? {}).includes(TASKS);
  if (name === "failing_job" && !followsTasks) {
    const message = { ...asked, method: "tasks/get", params: { taskId: MISSING, _meta } };
    return { message, headers: { ...headers, "mcp-method": "tasks/get", "mcp-name": MISSING } };
  }
  const call = own({ ...input, ...inputResponses?.user_name?.content });
  const meta = name === "greet" ? { ..._meta, [CAPABILITIES]: {} } : _meta;
  if (headers["mcp-name"]?.trim() === name) headers["mcp-name"] = call.name;
  return { message: { ...asked, params: { ...params, ...call, _meta: meta } }, headers };
}
