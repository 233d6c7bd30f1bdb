/** The MCP server over standard input and output, for one client that starts this process. */
import type { RequestId } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import type { Parent } from "../../producer/parent.ts";
import type { Clock } from "../../shared/clock.ts";
import { guardedLogger, type Logger } from "../../shared/logger.ts";
import { createMcpServer } from "./server.ts";

/** Most bytes that wait for the end of their message: as much as a request over HTTP may bring. */
const MOST_WAITING_BYTES = 8 * 1_024 * 1_024;

/** A connection; `closed` resolves when it is over: closed here, or by its client, or because a message was too long. */
export interface McpStdio {
  close(): Promise<void>;
  readonly closed: Promise<void>;
}

/** Serves until the connection is closed. Nothing but the protocol may go to standard output meanwhile. */
export function serveMcpStdio(parent: Parent, clock: Clock, given: Logger): McpStdio {
  const logger = guardedLogger(given);
  let problem: string | undefined;
  const onerror = ({ message }: Error) => {
    logger.debug({ problem: message }, "MCP connection trouble");
    // What ends the connection ends it before anything else happens; a line that could not be read does not.
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
  /** The answer to request `id` was written. */
  answered(id: RequestId): void;
  /** Called at once, by what ends the connection. */
  closing(): void;
  closed(): void;
}

/** Standard input and output, watched. */
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
