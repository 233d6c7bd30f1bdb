/** The MCP server over standard input and output, for one client that starts this process. */
import type { JSONRPCMessage, RequestId } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import type { Parent } from "../../producer/parent.ts";
import type { Clock } from "../../shared/clock.ts";
import { isUnreadable, messageOf } from "../../shared/errors.ts";
import { guardedLogger, type Logger } from "../../shared/logger.ts";
import { createMcpServer } from "./server.ts";

/** Maximum bytes of an incomplete message: the same as for a request over HTTP. */
const MOST_WAITING_BYTES = 8 * 1_024 * 1_024;
/** Answer to a line of JSON that is no message, such as a list of messages; over HTTP it is the same. */
const NO_MESSAGE: JSONRPCMessage = {
  jsonrpc: "2.0",
  // The SDK's type of an answer knows no null.
  id: null as never,
  error: { code: -32_600, message: "Send one JSON-RPC message a line, as an object." },
};

/** A connection; `closed` resolves when it has ended: by `close`, by its client, or because a message was too long. */
export interface McpStdio {
  close(): Promise<void>;
  readonly closed: Promise<void>;
}

/** Serves until the connection is closed. No other code may write to standard output meanwhile. */
export function serveMcpStdio(parent: Parent, clock: Clock, given: Logger): McpStdio {
  const logger = guardedLogger(given);
  let problem: string | undefined;
  const onerror = (error: Error) => {
    const message = messageOf(error);
    logger.debug({ problem: message }, "MCP connection trouble");
    if (isUnreadable(error)) transport.send(NO_MESSAGE).catch(() => {});
    // A fatal error closes the connection synchronously; an unreadable line does not close it.
    problem = message;
    queueMicrotask(() => {
      problem = undefined;
    });
  };
  const acks = new Map<RequestId, () => Promise<unknown>>();
  let tellClosed = () => {};
  const closed = new Promise<void>((resolve) => {
    tellClosed = resolve;
  });
  const transport = transportThatTells({
    answered(id) {
      const ack = acks.get(id);
      acks.delete(id);
      void ack?.();
    },
    closing() {
      if (problem !== undefined) logger.warn({ problem }, "MCP connection closed after trouble");
    },
    closed: () => tellClosed(),
  });
  const onceAnswered = (id: RequestId, ack: () => Promise<unknown>) => void acks.set(id, ack);
  const { close } = serveStdio(() => createMcpServer({ parent, clock, logger, onceAnswered }), {
    onerror,
    transport,
  });
  return { close, closed };
}

interface TransportWatcher {
  /** Called after the answer to request `id` was written. */
  answered(id: RequestId): void;
  /** Called synchronously when the connection begins to close. */
  closing(): void;
  closed(): void;
}

/** Creates a transport on standard input and output that calls the watcher. */
function transportThatTells({ answered, closing, closed }: TransportWatcher): StdioServerTransport {
  const limit = { maxBufferSize: MOST_WAITING_BYTES };
  const transport = new StdioServerTransport(undefined, undefined, limit);
  const write = transport.send.bind(transport);
  transport.send = async (message) => {
    await write(message);
    if (!("method" in message) && message.id !== undefined) answered(message.id);
  };
  const end = transport.close.bind(transport);
  transport.close = async () => {
    closing();
    await end();
    closed();
  };
  return transport;
}
