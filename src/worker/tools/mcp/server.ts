/**
 * One MCP server of a worker and the one connection that all runs share.
 *
 * 1. A connection that broke is made anew by the next call; one that could not be made, or that brought no list, not before its
 *    back-off is over. The back-off doubles until a list or a call has worked.
 * 2. Every wait has an end; what a server answers or fails with never rejects with anything but a {@link ToolFailure}.
 * 3. An answer has at most 10 MB, a longer one ends the connection; of a list no more pages are asked for than have that together.
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
import { whenAborted } from "../../../shared/stop-signal.ts";
import { packageVersion } from "../../../shared/version.ts";
import { boundedFetch } from "./response-limit.ts";

const CONNECT_MS = 10_000;
const FIRST_BACKOFF_MS = 1_000;
const LONGEST_BACKOFF_MS = 60_000;
const MAX_TOOLS = 500;
const MAX_PAGES = 50;
const MAX_LIST_CHARS = 10 * 1024 * 1024;
const MAX_ANSWER_BYTES = 10 * 1024 * 1024;
const MAX_STDERR_CHARS = 1_000;
const MAX_PROBLEM_CHARS = 500;

/** What a call of a tool came to. */
export type CallResult = Awaited<ReturnType<Client["callTool"]>>;

/** What a server needs from its worker. */
export interface ServerMeans {
  clock: Clock;
  logger: Logger;
}

/** A connection that is there or being made. */
interface Connecting {
  readonly client: Promise<Client>;
  /** Aborted when it must end: what is still being made is given up. */
  readonly end: AbortController;
}

/** See the module's header. */
export class ServerConnection {
  readonly name: string;
  readonly #server: McpServer;
  readonly #means: ServerMeans;
  #connecting: Connecting | undefined;
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

  /** The tools that the server lists, at most 500. Leaves no process behind: the first call starts it again. */
  async list(): Promise<ListedTool[]> {
    const connecting = this.#connection();
    const client = await connecting.client;
    let tools: ListedTool[];
    try {
      tools = await listTools(client);
    } catch (error) {
      throw this.#failed(error);
    } finally {
      await this.#end(connecting);
    }
    this.#failures = 0;
    return tools;
  }

  /** Calls a tool. Throws {@link ToolFailure} when the server refuses, is away, or takes too long. */
  async call(name: string, input: Record<string, unknown>, signal: AbortSignal): Promise<CallResult> {
    const connecting = this.#connection();
    const client = await connecting.client;
    try {
      const timeout = this.#server.timeout_ms;
      const sent = { name, arguments: input };
      const result = await client.callTool(sent, { signal, timeout, maxTotalTimeout: timeout });
      this.#failures = 0;
      return result;
    } catch (error) {
      const { ProtocolError, SdkError, SdkErrorCode } = await import("@modelcontextprotocol/client");
      const problem = clip(messageOf(error), MAX_PROBLEM_CHARS);
      if (error instanceof ProtocolError) throw new ToolFailure(`${this.name} refused the call: ${problem}`);
      if (error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout)
        throw new ToolFailure(
          `${this.name} did not answer within ${this.#server.timeout_ms / 1_000} s: the effect of the call is unknown.`,
        );
      await this.#end(connecting);
      throw new ToolFailure(
        `${this.name} broke off during this call (${problem}): its effect is unknown. Check before you repeat it.`,
      );
    }
  }

  /** Ends the connection for good, and with it a server that this process started. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#connecting) await this.#end(this.#connecting);
  }

  /** Ends a connection; the next call makes another one, unless it has been made already. */
  async #end(connecting: Connecting): Promise<void> {
    if (this.#connecting === connecting) this.#connecting = undefined;
    connecting.end.abort();
    const client = await connecting.client.catch(() => undefined);
    await client?.close().catch(() => {});
  }

  /** @throws {ToolFailure} while none can be made. */
  #connection(): Connecting {
    if (this.#isStopped) throw stopped();
    if (this.#connecting) return this.#connecting;
    if (this.backoffMs > 0) {
      const seconds = Math.ceil(this.backoffMs / 1_000);
      throw new ToolFailure(
        `${this.name} is not available; it is tried again in ${seconds} s. Go on without it.`,
      );
    }
    const end = new AbortController();
    const connecting: Connecting = { client: this.#connect(end), end };
    this.#connecting = connecting;
    connecting.client.then(
      (client) => {
        client.onclose = () => this.#closed(connecting);
      },
      () => {
        if (this.#connecting === connecting) this.#connecting = undefined;
      },
    );
    return connecting;
  }

  /** Has an end of its own: the SDK's limit holds for the first of the two messages alone. */
  async #connect(end: AbortController): Promise<Client> {
    const { Client } = await import("@modelcontextprotocol/client");
    const client = new Client({ name: "subagent-queue", version: packageVersion() });
    const { transport, said } = await transportTo(this.#server, () => {
      this.#means.logger.warn({ server: this.name }, "MCP server gave an answer of more than 10 MB");
    });
    const limit = this.#means.clock.timeout(CONNECT_MS, () => end.abort());
    try {
      await Promise.race([client.connect(transport, { timeout: CONNECT_MS }), givenUp(end.signal)]);
    } catch (error) {
      await client.close().catch(() => {});
      await transport.close().catch(() => {});
      throw this.#failed(error, said());
    } finally {
      limit.cancel();
    }
    this.#means.logger.debug({ server: this.name }, "MCP server connected");
    return client;
  }

  /** The next call makes another connection. */
  #closed(connecting: Connecting): void {
    if (this.#connecting !== connecting) return;
    this.#connecting = undefined;
    this.#means.logger.warn({ server: this.name }, "MCP server broke off");
  }

  #failed(error: unknown, said = ""): ToolFailure {
    if (this.#isStopped) return stopped();
    const longMs = FIRST_BACKOFF_MS * 2 ** this.#failures++;
    this.#retryAtMs = this.#means.clock.monotonicMs() + Math.min(longMs, LONGEST_BACKOFF_MS);
    const problem = clip(messageOf(error), MAX_PROBLEM_CHARS);
    this.#means.logger.warn({ server: this.name, problem, said }, "MCP server not available");
    return new ToolFailure(`${this.name} is not available. Go on without it.`);
  }
}

/**
 * What the server lists, page by page: the SDK's own walk goes on for 64 pages of any size, and fails beyond. A list without
 * end is as long as its bound.
 */
async function listTools(client: Client): Promise<ListedTool[]> {
  if (client.getServerCapabilities()?.tools === undefined) return [];
  const tools: ListedTool[] = [];
  let cursor: string | undefined;
  let chars = 0;
  for (let page = 0; page < MAX_PAGES && tools.length < MAX_TOOLS; page++) {
    const params = cursor === undefined ? {} : { cursor };
    const listed = await client.request({ method: "tools/list", params }, { timeout: CONNECT_MS });
    for (const tool of listed.tools) if (tools.length < MAX_TOOLS) tools.push(tool);
    chars += JSON.stringify(listed).length;
    cursor = listed.nextCursor;
    if (cursor === undefined || chars > MAX_LIST_CHARS) break;
  }
  return tools;
}

/** Rejects when `signal` aborts. */
async function givenUp(signal: AbortSignal): Promise<never> {
  await whenAborted(signal);
  throw new ToolFailure(`It was not connected within ${CONNECT_MS / 1_000} s.`);
}

function stopped(): ToolFailure {
  return new ToolFailure("The worker stops.");
}

/**
 * The way to a server; `said`: the end of what it wrote to its standard error. An answer that is too long ends the connection;
 * over HTTP `tooLong` is told.
 */
async function transportTo(
  server: McpServer,
  tooLong: () => void,
): Promise<{ transport: Transport; said: () => string }> {
  if ("url" in server) {
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const { url, headers } = server;
    const transport: Transport = new StreamableHTTPClientTransport(new URL(url), {
      requestInit: { headers },
      fetch: boundedFetch(MAX_ANSWER_BYTES, () => {
        tooLong();
        transport.close().catch(() => {});
      }),
    });
    return { transport, said: () => "" };
  }
  const { getDefaultEnvironment, StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const { command, args, env, cwd } = server;
  const transport = new StdioClientTransport({
    command,
    args,
    env: { ...getDefaultEnvironment(), ...env },
    stderr: "pipe",
    maxBufferSize: MAX_ANSWER_BYTES,
    ...(cwd !== undefined && { cwd }),
  });
  let said = "";
  transport.stderr?.on("data", (chunk: Buffer) => {
    said = (said + chunk.toString("utf8")).slice(-MAX_STDERR_CHARS);
  });
  return { transport, said: () => said };
}
