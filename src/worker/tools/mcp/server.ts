/**
 * One MCP server of a worker and the one connection that all runs share.
 *
 * 1. A connection that broke is made anew by the next call; one that could not be made not before its back-off is over.
 * 2. Every wait has an end; what a server answers or fails with never rejects with anything but a {@link ToolFailure}.
 *
 * Nothing is started before it is needed: for the list of tools once, then with the first call.
 */
import type { Client, Tool as ListedTool, Transport } from "@modelcontextprotocol/client";
import type { Clock } from "../../../shared/clock.ts";
import { messageOf, ToolFailure } from "../../../shared/errors.ts";
import type { Logger } from "../../../shared/logger.ts";
import type { McpServer } from "../../../shared/mcp-server.ts";
import { clip } from "../../../shared/protocol/text.ts";
import { keepLoginOf, keepSecretsOf, keepSecretsOfArguments } from "../../../shared/secrets.ts";
import { packageVersion } from "../../../shared/version.ts";

const CONNECT_MS = 10_000;
const FIRST_BACKOFF_MS = 1_000;
const LONGEST_BACKOFF_MS = 60_000;
const MAX_TOOLS = 500;
const MAX_PAGES = 50;
const MAX_STDERR_CHARS = 1_000;
const MAX_PROBLEM_CHARS = 500;

/** What a call of a tool came to. */
export type CallResult = Awaited<ReturnType<Client["callTool"]>>;

/** What a server needs from its worker. */
export interface ServerMeans {
  clock: Clock;
  logger: Logger;
}

/** See the module's header. */
export class ServerConnection {
  readonly name: string;
  readonly #server: McpServer;
  readonly #means: ServerMeans;
  #connecting: Promise<Client> | undefined;
  #failures = 0;
  #retryAtMs = Number.NEGATIVE_INFINITY;
  #isStopped = false;

  constructor(name: string, server: McpServer, means: ServerMeans) {
    this.name = name;
    this.#server = server;
    this.#means = means;
    if ("url" in server) {
      keepSecretsOf(server.headers);
      keepLoginOf(server.url);
    } else {
      keepSecretsOf(server.env);
      keepSecretsOfArguments(server.args);
    }
  }

  /** How long to wait before the next try to connect, ms. */
  get backoffMs(): number {
    return Math.max(0, this.#retryAtMs - this.#means.clock.monotonicMs());
  }

  /** Every tool that the server lists, at most 500. Leaves no process behind: the first call starts it again. */
  async list(): Promise<ListedTool[]> {
    const client = await this.#client();
    const tools: ListedTool[] = [];
    try {
      let cursor: string | undefined;
      for (let page = 0; page < MAX_PAGES && tools.length < MAX_TOOLS; page++) {
        const listed = await client.listTools(cursor === undefined ? {} : { cursor }, {
          timeout: CONNECT_MS,
        });
        tools.push(...listed.tools);
        cursor = listed.nextCursor;
        if (cursor === undefined) break;
      }
    } catch (error) {
      throw this.#failed(error);
    } finally {
      await this.disconnect();
    }
    return tools.slice(0, MAX_TOOLS);
  }

  /** Calls a tool. Throws {@link ToolFailure} when the server refuses, is away, or takes too long. */
  async call(name: string, input: Record<string, unknown>, signal: AbortSignal): Promise<CallResult> {
    const client = await this.#client();
    try {
      const timeout = this.#server.timeout_ms;
      return await client.callTool({ name, arguments: input }, { signal, timeout, maxTotalTimeout: timeout });
    } catch (error) {
      const { ProtocolError, SdkError, SdkErrorCode } = await import("@modelcontextprotocol/client");
      const problem = clip(messageOf(error), MAX_PROBLEM_CHARS);
      if (error instanceof ProtocolError) throw new ToolFailure(`${this.name} refused the call: ${problem}`);
      if (error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout)
        throw new ToolFailure(
          `${this.name} did not answer within ${this.#server.timeout_ms / 1_000} s: the effect of the call is unknown.`,
        );
      await this.disconnect();
      throw new ToolFailure(
        `${this.name} broke off during this call (${problem}): its effect is unknown. Check before you repeat it.`,
      );
    }
  }

  /** Ends the connection, and with it a server that this process started. */
  async disconnect(): Promise<void> {
    const connecting = this.#connecting;
    this.#connecting = undefined;
    const client = await connecting?.catch(() => undefined);
    await client?.close().catch(() => {});
  }

  /** Like {@link disconnect}, for good. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.disconnect();
  }

  #client(): Promise<Client> {
    if (this.#isStopped) return Promise.reject(new ToolFailure("The worker stops."));
    if (this.#connecting) return this.#connecting;
    if (this.backoffMs > 0) {
      const seconds = Math.ceil(this.backoffMs / 1_000);
      return Promise.reject(
        new ToolFailure(
          `${this.name} is not available; it is tried again in ${seconds} s. Go on without it.`,
        ),
      );
    }
    const connecting = this.#connect();
    this.#connecting = connecting;
    connecting.catch(() => {
      if (this.#connecting === connecting) this.#connecting = undefined;
    });
    return connecting;
  }

  async #connect(): Promise<Client> {
    const { Client } = await import("@modelcontextprotocol/client");
    const client = new Client({ name: "subagent-queue", version: packageVersion() });
    const { transport, said } = await transportTo(this.#server);
    try {
      await client.connect(transport, { timeout: CONNECT_MS });
    } catch (error) {
      await client.close().catch(() => {});
      await transport.close().catch(() => {});
      throw this.#failed(error, said());
    }
    this.#failures = 0;
    this.#means.logger.debug({ server: this.name }, "MCP server connected");
    client.onclose = () => this.#closed(client);
    return client;
  }

  /** The next call makes another connection. */
  #closed(client: Client): void {
    const connecting = this.#connecting;
    void connecting?.then(
      (current) => {
        if (current !== client || this.#connecting !== connecting) return;
        this.#connecting = undefined;
        this.#means.logger.warn({ server: this.name }, "MCP server broke off");
      },
      () => {},
    );
  }

  #failed(error: unknown, said = ""): ToolFailure {
    const longMs = FIRST_BACKOFF_MS * 2 ** this.#failures++;
    this.#retryAtMs = this.#means.clock.monotonicMs() + Math.min(longMs, LONGEST_BACKOFF_MS);
    const problem = clip(messageOf(error), MAX_PROBLEM_CHARS);
    this.#means.logger.warn({ server: this.name, problem, said }, "MCP server not available");
    return new ToolFailure(`${this.name} is not available. Go on without it.`);
  }
}

/** The way to a server; `said`: the end of what it wrote to its standard error. */
async function transportTo(server: McpServer): Promise<{ transport: Transport; said: () => string }> {
  if ("url" in server) {
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const { url, headers } = server;
    return {
      transport: new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }),
      said: () => "",
    };
  }
  const { getDefaultEnvironment, StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const { command, args, env, cwd } = server;
  const transport = new StdioClientTransport({
    command,
    args,
    env: { ...getDefaultEnvironment(), ...env },
    stderr: "pipe",
    ...(cwd !== undefined && { cwd }),
  });
  let said = "";
  transport.stderr?.on("data", (chunk: Buffer) => {
    said = (said + chunk.toString("utf8")).slice(-MAX_STDERR_CHARS);
  });
  return { transport, said: () => said };
}
