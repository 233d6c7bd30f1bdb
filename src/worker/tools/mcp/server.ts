/**
 * One MCP server of a worker, and the one connection that all its runs share.
 *
 * 1. After a broken connection the next call connects again. After a failed connection or list, calls fail until the
 *    back-off is over. The back-off doubles until a list or a call has worked.
 * 2. Every wait has a time limit. Calls reject only with a {@link ToolFailure}, whatever the server answers.
 * 3. Reading a list stops after the page that exceeds 10 MB in total.
 * 4. An unusable answer only fails its call. The connection ends only if it is lost, exceeds the bounds in `transport.ts`,
 *    brought {@link MOST_UNREAD} unusable answers in a row, or leaves a call and then a ping unanswered.
 *
 * The server is started only when needed: once for the list of tools, then with the first call.
 */
import type { Client } from "@modelcontextprotocol/client";
import type { Clock } from "../../../shared/clock.ts";
import { messageOf, ToolFailure } from "../../../shared/errors.ts";
import type { Logger } from "../../../shared/logger.ts";
import type { McpServer } from "../../../shared/mcp-server.ts";
import { packageVersion } from "../../../shared/package.ts";
import { clip } from "../../../shared/protocol/text.ts";
import { keepSecretsOf, keepSecretsOfArguments, keepUrlPassword } from "../../../shared/secrets.ts";
import { whenAborted } from "../../../shared/stop-signal.ts";
import { CallResult, ListedPage, ListedTool } from "./answer.ts";
import { openTransport, type ServerTransport } from "./transport.ts";

const CONNECT_MS = 10_000;
/** Time for a server that left a call unanswered to answer a ping. */
const PING_MS = 10_000;
const FIRST_BACKOFF_MS = 1_000;
const LONGEST_BACKOFF_MS = 60_000;
const MAX_TOOLS = 500;
const MAX_PAGES = 50;
const MAX_LIST_CHARS = 10 * 1024 * 1024;
const MAX_PROBLEM_CHARS = 500;
/** After this many unreadable answers in a row the connection is renewed: the server behind it may be gone. */
const MOST_UNREAD = 3;
/** Text of servers with HTTP status 400 for a client whose session they have lost. */
const FORGOTTEN = /session|initiali[sz]ed/i;

/** Dependencies of a server. */
export interface ServerMeans {
  clock: Clock;
  logger: Logger;
}

/** A connection, open or being opened. */
interface Connecting {
  readonly client: Promise<Client>;
  /** Aborts to end the connection, with a {@link ToolFailure} as reason; also gives up an unfinished one. */
  readonly end: AbortController;
  /** Its calls in a row without a readable answer. */
  unread: number;
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
      keepUrlPassword(server.url);
    } else {
      keepSecretsOf(server.env);
      keepSecretsOfArguments(server.args);
    }
  }

  /** Time until the next attempt to connect, ms. */
  get backoffMs(): number {
    return Math.max(0, this.#retryAtMs - this.#means.clock.monotonicMs());
  }

  /** Returns the tools that the server lists, at most 500. Then ends its process: the first call starts it again. */
  async list(): Promise<ListedTool[]> {
    const connecting = this.#connection();
    const client = await connecting.client;
    let tools: ListedTool[];
    try {
      tools = await listTools(client, (problem) => {
        this.#means.logger.warn({ server: this.name, problem }, "MCP tool left out");
      });
    } catch (error) {
      throw this.#failed(error);
    } finally {
      await this.#end(connecting);
    }
    this.#failures = 0;
    return tools;
  }

  /** Calls a tool. Throws {@link ToolFailure} if the server rejects the call, is unavailable, or times out. */
  async call(name: string, input: Record<string, unknown>, signal: AbortSignal): Promise<CallResult> {
    const connecting = this.#connection();
    const client = await connecting.client;
    try {
      const timeout = this.#server.timeout_ms;
      const sent = { method: "tools/call", params: { name, arguments: input } };
      const result = await client.request(sent, CallResult, { signal, timeout, maxTotalTimeout: timeout });
      this.#failures = 0;
      connecting.unread = 0;
      return result;
    } catch (error) {
      // A cancelled call says nothing about its server: one that takes a call at a time may still be busy with it.
      if (signal.aborted) throw new ToolFailure(`${this.name} was not waited for: the call was cancelled.`);
      throw await this.#failedCall(error, client, connecting);
    }
  }

  async #failedCall(error: unknown, client: Client, connecting: Connecting): Promise<ToolFailure> {
    const { ProtocolError, SdkError, SdkErrorCode, SdkHttpError } = await import(
      "@modelcontextprotocol/client"
    );
    const problem = clip(messageOf(whyEnded(connecting.end) ?? error), MAX_PROBLEM_CHARS);
    if (error instanceof ProtocolError) {
      connecting.unread = 0;
      return new ToolFailure(`${this.name} refused the call: ${problem}`);
    }
    if (error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout) {
      void this.#endIfSilent(client, connecting);
      return new ToolFailure(
        `${this.name} did not answer within ${this.#server.timeout_ms / 1_000} s: the effect of the call is unknown.`,
      );
    }
    const isForgotten =
      error instanceof SdkHttpError &&
      client.transport?.sessionId !== undefined &&
      (error.status === 404 || (error.status === 400 && FORGOTTEN.test(error.message)));
    // A client without a transport has been closed, by either side.
    const isGone = isForgotten || client.transport === undefined;
    const what = isGone ? "broke off during this call" : "gave no answer that can be read";
    connecting.unread += 1;
    if (isGone || connecting.unread >= MOST_UNREAD) await this.#end(connecting);
    return new ToolFailure(
      `${this.name} ${what} (${problem}): its effect is unknown. Check before you repeat it.`,
    );
  }

  /** Ends the connection if the server leaves a ping unanswered, too: one that is only slow with a tool answers. Never rejects. */
  async #endIfSilent(client: Client, connecting: Connecting): Promise<void> {
    const { SdkError, SdkErrorCode } = await import("@modelcontextprotocol/client");
    const problem: unknown = await client.ping({ timeout: Math.min(PING_MS, this.#server.timeout_ms) }).then(
      () => undefined,
      (error: unknown) => error,
    );
    if (!(problem instanceof SdkError && problem.code === SdkErrorCode.RequestTimeout)) return;
    this.#means.logger.warn({ server: this.name }, "MCP server answers nothing: its connection ends");
    await this.#end(connecting);
  }

  /** Ends the connection for good, and the server if this process started it. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#connecting) await this.#end(this.#connecting);
  }

  /** Ends a connection; the next call makes another one, unless there is one already. */
  async #end(connecting: Connecting): Promise<void> {
    if (this.#connecting === connecting) this.#connecting = undefined;
    connecting.end.abort();
    const client = await connecting.client.catch(() => undefined);
    await client?.close().catch(() => {});
  }

  /** Returns the connection, opened if needed. @throws {ToolFailure} during the back-off or after `stop`. */
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
    const connecting: Connecting = { client: this.#connect(end), end, unread: 0 };
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

  /** Connects within its own time limit, because the SDK's limit only covers the first of the two messages. */
  async #connect(end: AbortController): Promise<Client> {
    const { clock, logger } = this.#means;
    const { client, transport, said } = await this.#open(end).catch((error: unknown) => {
      throw this.#failed(error);
    });
    const late = new ToolFailure(`It was not connected within ${CONNECT_MS / 1_000} s.`);
    const limit = clock.timeout(CONNECT_MS, () => end.abort(late));
    try {
      await Promise.race([client.connect(transport, { timeout: CONNECT_MS }), givenUp(end)]);
    } catch (error) {
      await client.close().catch(() => {});
      await transport.close().catch(() => {});
      throw this.#failed(whyEnded(end) ?? error, said());
    } finally {
      limit.cancel();
    }
    logger.debug({ server: this.name }, "MCP server connected");
    return client;
  }

  /** Loads the SDK and makes both sides. Rejects with any error, e.g. where the machine gives no file descriptor. */
  async #open(end: AbortController): Promise<ServerTransport & { client: Client }> {
    const { Client } = await import("@modelcontextprotocol/client");
    const client = new Client({ name: "subagent-queue", version: packageVersion() });
    const { clock, logger } = this.#means;
    const opened = await openTransport(this.#server, clock, (why) => {
      end.abort(new ToolFailure(why));
      logger.warn({ server: this.name, why }, "MCP server goes beyond its bounds: its connection ends");
    });
    return { client, ...opened };
  }

  /** Forgets the connection; the next call opens another. */
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
 * Lists the server's tools page by page, up to the bounds. The SDK's own iteration reads 64 pages of any size, and fails
 * beyond; here an endless list is cut at a bound.
 */
async function listTools(client: Client, leftOut: (problem: string) => void): Promise<ListedTool[]> {
  if (client.getServerCapabilities()?.tools === undefined) return [];
  const tools: ListedTool[] = [];
  let taken = 0;
  let cursor: string | undefined;
  let chars = 0;
  for (let page = 0; page < MAX_PAGES && taken < MAX_TOOLS; page++) {
    const params = cursor === undefined ? {} : { cursor };
    const asked = { method: "tools/list", params };
    const listed = await client.request(asked, ListedPage, { timeout: CONNECT_MS });
    for (const tool of listed.tools.slice(0, MAX_TOOLS - taken)) {
      const read = ListedTool.safeParse(tool);
      if (read.success) tools.push(read.data);
      else leftOut(issueText(read.error.issues));
      taken += 1;
    }
    chars += JSON.stringify(listed).length;
    cursor = listed.nextCursor;
    if (cursor === undefined || chars > MAX_LIST_CHARS) break;
  }
  return tools;
}

/** Rejects when `end` aborts. */
async function givenUp(end: AbortController): Promise<never> {
  await whenAborted(end.signal);
  throw whyEnded(end) ?? stopped();
}

/** Returns why a connection was ended; undefined if it was not, or for a reason that is not the server's. */
function whyEnded({ signal }: AbortController): ToolFailure | undefined {
  const reason: unknown = signal.reason;
  return reason instanceof ToolFailure ? reason : undefined;
}

function issueText([issue]: readonly {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}[]): string {
  return issue === undefined
    ? "not valid"
    : clip(`${issue.path.join(".")}: ${issue.message}`, MAX_PROBLEM_CHARS);
}

function stopped(): ToolFailure {
  return new ToolFailure("The worker stops.");
}
