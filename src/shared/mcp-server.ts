/** Parses the list of a worker's MCP servers, in the format that MCP clients share: `{"mcpServers": {name: …}}`. Pure. */
import { z } from "zod";
import { problemText, wordingOf } from "./problem-text.ts";

/** Maximum number of MCP servers per worker. */
const MAX_SERVERS = 32;
const ServerName = z
  .string()
  .regex(/^[A-Za-z0-9](?:_?[A-Za-z0-9-])*$/, "a name of letters, digits, - and single _")
  .max(32);
/** The longest time limit of a call, ms. */
export const MAX_CALL_MS = 600_000;
const timeout_ms = z.int().min(100).max(MAX_CALL_MS).default(60_000);

/** A server process that the worker starts; it talks over stdin and stdout. */
const StdioServer = z.strictObject({
  type: z.literal("stdio").optional(),
  command: z.string().min(1),
  args: z.array(z.string()).default([]),
  /** Environment variables of the server, besides PATH and the few variables that hold no secrets. */
  env: z.record(z.string(), z.string()).default({}),
  cwd: z.string().optional(),
  timeout_ms,
});

/** A server reached over streamable HTTP. */
const HttpServer = z.strictObject({
  type: z.enum(["http", "streamable-http"]).optional(),
  url: z.url({ protocol: /^https?$/ }),
  headers: z.record(z.string(), z.string()).default({}),
  timeout_ms,
});

/** One server; `timeout_ms` bounds each call. */
export const McpServer = z.union([StdioServer, HttpServer]);
/** See {@link McpServer}. */
export type McpServer = z.output<typeof McpServer>;

/** Servers by name. The name is part of their tools' names: `mcp__<server>__<tool>`. */
export const McpServers = z
  .record(ServerName, McpServer)
  .refine((servers) => Object.keys(servers).length <= MAX_SERVERS, `at most ${MAX_SERVERS} servers`);
/** See {@link McpServers}. */
export type McpServers = z.output<typeof McpServers>;
/** Input form of {@link McpServers}: fields with a default are optional. */
export type McpServersInput = z.input<typeof McpServers>;

const ServersFile = z.looseObject({ mcpServers: McpServers });
const VARIABLE = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g;

/**
 * Returns the servers in `json`; `${NAME}` and `${NAME:-default}` in its strings are replaced from `env`. If there is a
 * problem, returns one clause about the first one, which never shows a value.
 */
export function readMcpServers(
  json: string,
  env: Readonly<Record<string, string | undefined>>,
): { servers: McpServers } | { problem: string } {
  const missing = new Set<string>();
  const filled = (text: string) =>
    text.replace(VARIABLE, (_, name: string, fallback?: string) => {
      const value = env[name] || fallback;
      if (value === undefined) missing.add(name);
      return value ?? "";
    });
  try {
    const value: unknown = JSON.parse(json, (_, part) => (typeof part === "string" ? filled(part) : part));
    const parsed = ServersFile.safeParse(value, { error: wordingOf });
    if (missing.size > 0) return { problem: `it names ${[...missing].join(", ")}, which is not set` };
    if (parsed.success) return { servers: parsed.data.mcpServers };
    return { problem: problemText(parsed.error) };
  } catch {
    return { problem: "it is not JSON" };
  }
}
