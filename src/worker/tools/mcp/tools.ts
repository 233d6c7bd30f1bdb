/**
 * The tools of a worker's MCP servers: `mcp__<server>__<tool>`, listed when the worker starts, called over connections that
 * all runs share.
 *
 * 1. A server that cannot be listed at the start keeps no worker from starting; it is asked again, ever more rarely, and its
 *    tools are there from then on.
 *
 * What a server says about its tools is bounded in number, names, size and depth. A tool that the model could not be told about, or with which
 * the Messages API would refuse every request, is left out, with a line in the log.
 */
import { messageOf, ToolFailure } from "../../../shared/errors.ts";
import type { McpServers } from "../../../shared/mcp-server.ts";
import { JsonObject } from "../../../shared/protocol/content.ts";
import { depthOf } from "../../../shared/protocol/message.ts";
import { mcpServerOf } from "../../../shared/protocol/permissions.ts";
import { clip } from "../../../shared/protocol/text.ts";
import { withoutSecrets, withoutSecretsIn } from "../../../shared/secrets.ts";
import { StopSignal } from "../../../shared/stop-signal.ts";
import { schemaProblem, type Tool } from "../tool.ts";
import { type ListedTool, textOf } from "./answer.ts";
import { ServerConnection, type ServerMeans } from "./server.ts";

/** A worker waits so long for the lists of its servers before it takes its first wake. */
const LIST_MS = 10_000;
const MAX_NAME_CHARS = 128;
const MAX_DESCRIPTION_CHARS = 4_000;
const MAX_SCHEMA_CHARS = 64 * 1024;
/** Of objects and lists in one another. Deeper than anything that people write; what lies deeper could not be searched for secrets. */
const MAX_SCHEMA_DEPTH = 128;
/** Beyond the server's own limit, which ends the call with a better sentence: it may have to be started first. */
const GRACE_MS = 11_000;

/** The MCP side of a worker. */
export interface McpTools {
  /** The tools that are known by now; the same list until there are more. */
  tools(): readonly Tool[];
  /** Lists every server; resolves when all have answered or failed, at the latest after 10 s. */
  start(): Promise<void>;
  /** Ends every server. Idempotent. */
  stop(): Promise<void>;
}

/** The tools of `servers`; nothing is started yet. */
export function createMcpTools(servers: McpServers, means: ServerMeans): McpTools {
  const connections = Object.entries(servers).map(
    ([name, server]) => [new ServerConnection(name, server, means), server.timeout_ms] as const,
  );
  const known = new Map<string, Tool>();
  let tools: readonly Tool[] = [];
  const stopping = new StopSignal();
  const listen = async (connection: ServerConnection, timeoutMs: number): Promise<boolean> => {
    try {
      for (const listed of await connection.list()) {
        const tool = toolOf(connection, listed, timeoutMs);
        const problem =
          "problem" in tool ? tool.problem : known.has(tool.name) ? "another one has its name" : undefined;
        if (!("problem" in tool) && problem === undefined) known.set(tool.name, tool);
        else
          means.logger.warn(
            { server: connection.name, tool: clip(listed.name, 100), problem },
            "MCP tool left out",
          );
      }
      tools = [...known.values()];
      return true;
    } catch (error) {
      means.logger.debug({ server: connection.name, problem: messageOf(error) }, "MCP server not listed");
      return false;
    }
  };
  const listUntilKnown = async (connection: ServerConnection, timeoutMs: number): Promise<void> => {
    while (!stopping.isStopped && !(await listen(connection, timeoutMs)))
      await means.clock.sleep(connection.backoffMs, stopping.signal);
  };
  return {
    tools: () => tools,
    async start() {
      if (connections.length === 0) return;
      const first = connections.map(async ([connection, timeoutMs]) => {
        if (!(await listen(connection, timeoutMs))) void listUntilKnown(connection, timeoutMs);
      });
      await Promise.race([Promise.all(first), means.clock.sleep(LIST_MS, stopping.signal)]);
    },
    async stop() {
      stopping.stop();
      await Promise.all(connections.map(([connection]) => connection.stop()));
    },
  };
}

/** A problem where the model could not be told about it. */
function toolOf(server: ServerConnection, listed: ListedTool, timeoutMs: number): Tool | { problem: string } {
  const name = `mcp__${server.name}__${withoutSecrets(listed.name).replace(/[^A-Za-z0-9_-]/g, "_")}`;
  if (listed.name === "" || name.length > MAX_NAME_CHARS)
    return {
      problem: `its name is empty or, with mcp__${server.name}__, longer than ${MAX_NAME_CHARS} characters`,
    };
  const { $schema: _, ...listedSchema } = listed.inputSchema;
  if (depthOf(listedSchema, MAX_SCHEMA_DEPTH) > MAX_SCHEMA_DEPTH)
    return { problem: `its input schema is deeper than ${MAX_SCHEMA_DEPTH} levels` };
  const inputSchema = withoutSecretsIn(listedSchema, MAX_SCHEMA_DEPTH);
  if (JSON.stringify(inputSchema).length > MAX_SCHEMA_CHARS)
    return { problem: `its input schema is longer than ${MAX_SCHEMA_CHARS} characters` };
  const problem = schemaProblem(inputSchema);
  if (problem !== undefined) return { problem };
  const said = withoutSecrets(listed.description ?? listed.title ?? listed.name);
  const description = clip(said, MAX_DESCRIPTION_CHARS);
  return {
    name,
    server: mcpServerOf(name),
    description: description.trim() === "" ? name : description,
    inputSchema: { ...inputSchema, type: "object" },
    idempotent: listed.annotations?.readOnlyHint === true,
    timeoutMs: timeoutMs + GRACE_MS,
    usesWorkspace: false,
    async check(input) {
      const isObject = typeof input === "object" && input !== null && !Array.isArray(input);
      return isObject ? { ok: true, input } : { ok: false, problem: "the input must be an object" };
    },
    async run(input, ctx) {
      const result = await server.call(listed.name, JsonObject.parse(input), ctx.signal);
      const text = textOf(result);
      if (result.isError) throw new ToolFailure(text === "" ? `${name} failed.` : text);
      return text;
    },
  };
}
