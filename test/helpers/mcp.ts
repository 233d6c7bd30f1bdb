/** Requests of MCP's newest revision, as a client that follows tasks sends them. */
const TASKS = "io.modelcontextprotocol/tasks";
const META = "io.modelcontextprotocol/";
const REVISION = "2026-07-28";

/** A JSON-RPC answer. */
export interface McpAnswer {
  result?: Record<string, unknown>;
  error?: { code: number; message: string; data?: unknown };
}

/** How a request is sent. */
export interface McpRequestOptions {
  /** Default true. */
  followsTasks?: boolean;
  /** Sent as `Authorization: Bearer`. */
  token?: string;
  signal?: AbortSignal;
}

/** One request. Rejects as `fetch` does. */
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
