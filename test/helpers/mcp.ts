/** Sends requests of MCP's newest revision as a client that follows tasks, and starts MCP servers with given answers. */
import { createServer, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { listenUntilEnd } from "./listen.ts";

const TASKS = "io.modelcontextprotocol/tasks";
const META = "io.modelcontextprotocol/";
const REVISION = "2026-07-28";

/** A JSON-RPC response. */
export interface McpAnswer {
  result?: Record<string, unknown>;
  error?: { code: number; message: string; data?: unknown };
}

/** Options of {@link askMcp}. */
export interface McpRequestOptions {
  /** Default true. */
  followsTasks?: boolean;
  /** Sent as `Authorization: Bearer`. */
  token?: string;
  signal?: AbortSignal;
}

/** Sends one request. Rejects as `fetch` does. */
export async function askMcp(
  url: URL | string,
  method: string,
  params: object,
  { followsTasks = true, token, signal }: McpRequestOptions = {},
): Promise<McpAnswer> {
  const name =
    "name" in params ? String(params.name) : "taskId" in params ? String(params.taskId) : undefined;
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": REVISION,
      "Mcp-Method": method,
      ...(name && { "Mcp-Name": name }),
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method,
      params: {
        ...params,
        _meta: {
          [`${META}protocolVersion`]: REVISION,
          [`${META}clientInfo`]: { name: "test", version: "1" },
          [`${META}clientCapabilities`]: followsTasks ? { extensions: { [TASKS]: {} } } : {},
        },
      },
    }),
    ...(signal && { signal }),
  });
  const text = await response.text();
  const data = text.startsWith("{") ? text : (/^data: (\{.*)$/m.exec(text)?.[1] ?? "{}");
  return JSON.parse(data) as McpAnswer;
}

/** A message that a server has received. */
export interface McpMessage {
  id?: number;
  method: string;
  params?: Record<string, unknown>;
}

/**
 * Handlers of a server by method. `answer` gets the client's answers to the server's own requests; `GET` (open a stream) and
 * `DELETE` (end a session) get the HTTP headers as `params`. A handler returns a result, throws an error, or writes the
 * response itself and returns undefined.
 */
export type McpAnswers = Record<
  string,
  (message: McpMessage, response: ServerResponse) => object | undefined
>;

const initialize = ({ params }: McpMessage) => ({
  protocolVersion: params?.protocolVersion,
  capabilities: { tools: {} },
  serverInfo: { name: "test", version: "1" },
});

/** Starts an MCP server over streamable HTTP until the test ends. `asked`: the methods of the messages received so far. */
export async function startMcpServer(answers: McpAnswers): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = [];
  const all: McpAnswers = { initialize, ...answers };
  const server = createServer(async (request, response) => {
    const { method = "", headers } = request;
    if (method !== "POST" && all[method] === undefined) return void response.writeHead(405).end();
    const message: McpMessage = {
      method: "answer",
      ...(method === "POST" ? JSON.parse(await text(request)) : { method, params: headers }),
    };
    asked.push(message.method);
    const answer = all[message.method];
    if (answer === undefined && message.id === undefined) return void response.writeHead(202).end();
    let said: object | undefined;
    try {
      const result = answer?.(message, response);
      said = result && { result };
    } catch (error) {
      said = { error: { code: -32603, message: String(error) } };
    }
    if (said === undefined) return;
    const body = JSON.stringify({ jsonrpc: "2.0", id: message.id, ...said });
    response.writeHead(200, { "Content-Type": "application/json" }).end(body);
  });
  // On a busy machine a client would send its next request on a connection that the server has just closed.
  server.keepAliveTimeout = 0;
  return { url: `${await listenUntilEnd(server)}/mcp`, asked };
}
