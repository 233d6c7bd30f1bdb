/**
 * The tools of a worker's MCP servers: `mcp__<server>__<tool>`, listed when the worker starts, called over connections that
 * all runs share.
 *
 * 1. A server that cannot be listed at the start does not prevent the worker's start. The worker retries with growing
 *    delays; its tools are available from then on.
 *
 * A server's tools are bounded in number, names, size and depth. A tool is left out, and logged, if it cannot be described
 * to the model, or if the Messages API would reject every request with it.
 */
import { messageOf, ToolFailure } from "../../../shared/errors.ts";
import type { McpServers } from "../../../shared/mcp-server.ts";
import { isJsonObject, JsonObject } from "../../../shared/protocol/content.ts";
import { mcpServerOf } from "../../../shared/protocol/permissions.ts";
import { clip, depthOf } from "../../../shared/protocol/text.ts";
import { withoutSecrets, withoutSecretsIn } from "../../../shared/secrets.ts";
import { StopSignal } from "../../../shared/stop-signal.ts";
import { schemaProblem, type Tool } from "../tool.ts";
import { type ListedTool, textOf } from "./answer.ts";
import { ServerConnection, type ServerMeans } from "./server.ts";

/** Longest time a worker waits for the lists of its servers before it takes its first wake. */
const LIST_MS = 10_000;
const MAX_NAME_CHARS = 128;
const MAX_DESCRIPTION_CHARS = 4_000;
const MAX_SCHEMA_CHARS = 64 * 1024;
/** Most levels of nested objects and lists: more than real schemas have. Deeper ones could not be searched for secrets. */
const MAX_SCHEMA_DEPTH = 128;
/** Added to the server's own limit, which ends the call with a better message: the server may have to start first. */
const GRACE_MS = 11_000;

/** The MCP servers of a worker. */
export interface McpTools {
  /** The tools known so far; the same list until there are more. */
  tools(): readonly Tool[];
  /** Lists every server, after a stop anew; resolves when all have answered or failed, at the latest after 10 s. */
  start(): Promise<void>;
  /** Ends every server. Idempotent. */
  stop(): Promise<void>;
}

/** Creates the tools of `servers`; starts nothing yet. */
export function createMcpTools(servers: McpServers, means: ServerMeans): McpTools {
  let opened = openServers(servers, means);
  let isStopped = false;
  return {
    tools: () => opened.tools(),
    start() {
      // A connection that was stopped stays so: a worker that starts again has others.
      if (isStopped) opened = openServers(servers, means);
      isStopped = false;
      return opened.start();
    },
    stop() {
      isStopped = true;
      return opened.stop();
    },
  };
}

/** The tools of `servers` until they are stopped. */
function openServers(servers: McpServers, means: ServerMeans): McpTools {
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

/** Converts a listed tool; returns a problem if it cannot be described to the model. */
function toolOf(server: ServerConnection, listed: ListedTool, timeoutMs: number): Tool | { problem: string } {
  const name = `mcp__${server.name}__${withoutSecrets(listed.name).replace(/[^A-Za-z0-9_-]/g, "_")}`;
  if (listed.name === "" || name.length > MAX_NAME_CHARS)
    return {
      problem: `its name is empty or, with mcp__${server.name}__, longer than ${MAX_NAME_CHARS} characters`,
    };
  const { $schema: _, ...listedSchema } = listed.inputSchema;
  if (depthOf(listedSchema, MAX_SCHEMA_DEPTH) > MAX_SCHEMA_DEPTH)
    return { problem: `its input schema is deeper than ${MAX_SCHEMA_DEPTH} levels` };
  const inputSchema = { ...withoutSecretsIn(listedSchema, MAX_SCHEMA_DEPTH), type: "object" as const };
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
    inputSchema,
    idempotent: listed.annotations?.readOnlyHint === true,
    timeoutMs: timeoutMs + GRACE_MS,
    usesWorkspace: false,
    async check(input) {
      return isJsonObject(input)
        ? { ok: true, input: withoutOmitted(input, inputSchema) }
        : { ok: false, problem: "the input must be an object" };
    },
    async run(input, ctx) {
      const result = await server.call(listed.name, JsonObject.parse(input), ctx.signal);
      const text = textOf(result);
      if (result.isError) throw new ToolFailure(text === "" ? `${name} failed.` : text);
      return text;
    },
  };
}

/** Returns the input without the optional fields that its model omits by null; a field whose schema may know null stays. */
function withoutOmitted(input: JsonObject, { properties, required }: Tool["inputSchema"]): JsonObject {
  const isRequired = (name: string) => Array.isArray(required) && required.includes(name);
  const isOmitted = (name: string) => {
    const schema = isJsonObject(properties) ? properties[name] : undefined;
    if (isRequired(name) || !isJsonObject(schema)) return false;
    const types = [schema.type].flat();
    return types.every((type) => typeof type === "string" && type !== "null");
  };
  return Object.fromEntries(
    Object.entries(input).filter(([name, value]) => value !== null || !isOmitted(name)),
  );
}
