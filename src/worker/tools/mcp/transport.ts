/**
 * The connection to an MCP server, with bounds for its messages. Beyond a bound this side ends it, with a reason.
 *
 * 1. A message has at most 10 MB and 100,000 values, and is at most 1,000 levels deep. The server's answer to the handshake holds at most 10,000
 *    values.
 * 2. A server sends at most 1,000 messages a second, those that cannot be read included, at most 100 of them requests to this
 *    side. At most 64 answers to it are pending.
 * 3. A stream that a server ends is reopened after one second at the earliest. While streams end at once without a message,
 *    the delay doubles up to 60 s, even if the server asks for less.
 * 4. A request over HTTP ends with its answer, or when it is given up, even if the server leaves it open (`request-end.ts`).
 * 5. A server over HTTP is told when its session is over. Its answer is not read, and waited for a second at most.
 */
import type { JSONRPCMessage, StreamableHTTPClientTransport, Transport } from "@modelcontextprotocol/client";
import type { Clock } from "../../../shared/clock.ts";
import { ToolFailure } from "../../../shared/errors.ts";
import type { McpServer } from "../../../shared/mcp-server.ts";
import { withoutSecrets } from "../../../shared/secrets.ts";
import { ProcessTransport } from "./process-transport.ts";
import { endRequests } from "./request-end.ts";
import { boundedFetch } from "./response-limit.ts";

const LIMITS = { bytes: 10 * 1024 * 1024, values: 100_000, depth: 1_000 };
const MAX_HANDSHAKE_VALUES = 10_000;
const MAX_SENT_A_SECOND = 1_000;
const MAX_ASKED_A_SECOND = 100;
const MAX_ANSWERS_UNDER_WAY = 64;
const MAX_STDERR_CHARS = 1_000;
/** Bytes kept before secrets are masked, so that no secret is cut in two. */
const MAX_STDERR_BYTES = 4 * 1024;
const [FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS] = [1_000, 60_000];
const GOODBYE_MS = 1_000;
/** A stream that stays open this long does not lengthen the back-off. */
const LASTING_MS = 5_000;

/** See the module's header. */
export interface ServerTransport {
  readonly transport: Transport;
  /** Returns the end of the server's standard error, without secrets. */
  said(): string;
}

/** Ends the connection; the argument is a clause that says why. */
type End = (why: string) => void;

/** Creates a transport, not started; calls `ended` once with the reason if this side ends the connection. */
export async function openTransport(server: McpServer, clock: Clock, ended: End): Promise<ServerTransport> {
  let why: string | undefined;
  const end: End = (reason) => {
    if (why !== undefined) return;
    why = reason;
    ended(reason);
    made.transport.close().catch(() => {});
  };
  const made = "url" in server ? await overHttp(server, clock, end) : await overStdio(server, clock, end);
  boundAnswers(made.transport, end);
  const { onmessage: heard } = made.transport;
  const { checkMessage, checkRate } = messageBounds(clock);
  made.transport.onerror = () => {
    const problem = checkRate();
    if (problem !== undefined) end(problem);
  };
  made.transport.onmessage = (message) => {
    const problem = why ?? checkMessage(message);
    if (problem === undefined) return heard?.(message);
    end(problem);
    // The client must not see this message.
    throw new ToolFailure(problem);
  };
  return made;
}

async function overHttp(
  { url, headers }: Extract<McpServer, { url: string }>,
  clock: Clock,
  end: End,
): Promise<ServerTransport> {
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const { schedule, relax, cancel } = reconnections(clock);
  const ask = boundedFetch(LIMITS, end);
  const http = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers },
    fetch: ask,
    reconnectionScheduler: schedule,
  });
  const close = http.close.bind(http);
  const requests = endRequests(http, clock);
  let goodbye: Promise<void> | undefined;
  const transport: Transport = Object.assign(http, {
    onmessage(message: JSONRPCMessage) {
      relax();
      requests.heard(message);
    },
    async close() {
      await close();
      requests.forget();
      goodbye ??= endSession(http, (init) => ask(url, init), headers, clock);
      await goodbye;
    },
  });
  transport.onclose = cancel;
  return { transport, said: () => "" };
}

/**
 * Tells a server that the session is over, because it may hold resources until then. The SDK's own request ends with its
 * transport, and has no time limit. Never rejects.
 */
async function endSession(
  { sessionId, protocolVersion }: Pick<StreamableHTTPClientTransport, "sessionId" | "protocolVersion">,
  ask: (init: RequestInit) => Promise<Response>,
  headers: Readonly<Record<string, string>>,
  clock: Clock,
): Promise<void> {
  if (sessionId === undefined) return;
  const late = new AbortController();
  const limit = clock.timeout(GOODBYE_MS, () => late.abort());
  const named = new Headers(headers);
  named.set("mcp-session-id", sessionId);
  if (protocolVersion !== undefined) named.set("mcp-protocol-version", protocolVersion);
  try {
    const { body } = await ask({ method: "DELETE", headers: named, redirect: "manual", signal: late.signal });
    await body?.cancel();
  } catch {
    // The server is gone or slow; it also ends sessions by itself after a while.
  } finally {
    limit.cancel();
  }
}

async function overStdio(
  { command, args, env, cwd }: Extract<McpServer, { command: string }>,
  clock: Clock,
  end: End,
): Promise<ServerTransport> {
  const { getDefaultEnvironment } = await import("@modelcontextprotocol/client/stdio");
  let said = Buffer.alloc(0);
  const transport = new ProcessTransport({
    command,
    args,
    env: { ...getDefaultEnvironment(), ...env },
    cwd,
    limits: LIMITS,
    clock,
    refused: end,
    complained(bytes) {
      said = Buffer.concat([said, bytes]).subarray(-MAX_STDERR_BYTES);
    },
  });
  return { transport, said: () => withoutSecrets(said.toString()).slice(-MAX_STDERR_CHARS) };
}

/** Schedules when streams are opened again. */
function reconnections(clock: Clock) {
  const timers = new Set<{ cancel(): void }>();
  let backoffMs = FIRST_BACKOFF_MS;
  let askedAtMs = Number.NEGATIVE_INFINITY;
  return {
    /** `delayMs` may be any number that the server named. */
    schedule(reconnect: () => void, delayMs: number) {
      // After a stream that stayed open for a while the back-off starts again.
      if (clock.monotonicMs() - askedAtMs >= LASTING_MS) backoffMs = FIRST_BACKOFF_MS;
      const timer = clock.timeout(Math.min(Math.max(delayMs, backoffMs), LONGEST_BACKOFF_MS), () => {
        timers.delete(timer);
        askedAtMs = clock.monotonicMs();
        reconnect();
      });
      timers.add(timer);
      backoffMs *= 2;
    },
    relax() {
      backoffMs = FIRST_BACKOFF_MS;
    },
    cancel() {
      for (const timer of timers) timer.cancel();
    },
  };
}

/**
 * Returns two checks; each returns the problem, if any. `checkMessage` checks a server's next message before the client reads
 * it, `checkRate` a message that cannot be read.
 */
function messageBounds(clock: Clock) {
  let [sinceMs, sent, asked, isConnected] = [Number.NEGATIVE_INFINITY, 0, 0, false];
  const checkRate = (): string | undefined => {
    const nowMs = clock.monotonicMs();
    if (nowMs - sinceMs >= 1_000) [sinceMs, sent, asked] = [nowMs, 0, 0];
    sent += 1;
    return sent > MAX_SENT_A_SECOND ? `it sent more than ${MAX_SENT_A_SECOND} messages a second` : undefined;
  };
  const checkMessage = (message: object): string | undefined => {
    const problem = checkRate();
    if (problem !== undefined) return problem;
    if ("method" in message && "id" in message) {
      asked += 1;
      if (asked > MAX_ASKED_A_SECOND) return `it asked more than ${MAX_ASKED_A_SECOND} times a second`;
    }
    if (isConnected || !("result" in message)) return undefined;
    isConnected = true;
    return holdsMore(message.result, MAX_HANDSHAKE_VALUES)
      ? `it said more than ${MAX_HANDSHAKE_VALUES} values about itself`
      : undefined;
  };
  return { checkMessage, checkRate };
}

function holdsMore(value: unknown, most: number): boolean {
  const open = [value];
  let seen = 0;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next !== "object" || next === null) continue;
    const parts: unknown[] = Object.values(next);
    seen += parts.length;
    if (seen > most) return true;
    open.push(...parts);
  }
  return false;
}

/** Bounds the pending answers: those that the server does not read accumulate in memory. */
function boundAnswers(transport: Transport, end: End): void {
  const send = transport.send.bind(transport);
  let underWay = 0;
  transport.send = async (message, options) => {
    if ("method" in message) return send(message, options);
    if (underWay >= MAX_ANSWERS_UNDER_WAY) {
      end(`it left ${MAX_ANSWERS_UNDER_WAY} answers to its questions untaken`);
      return;
    }
    underWay += 1;
    try {
      await send(message, options);
    } finally {
      underWay -= 1;
    }
  };
}
