/** The MCP server over standard input and output, for one client that starts this process. */
import type { Readable, Writable } from "node:stream";
import type { RequestId } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import type { Parent } from "../../producer/parent.ts";
import { type Clock, systemClock } from "../../shared/clock.ts";
import { messageOf } from "../../shared/errors.ts";
import { createLogger, guardedLogger, type Logger } from "../../shared/logger.ts";
import { createMcpServer } from "./server.ts";
import { StdioTransport } from "./stdio-transport.ts";

/** A connection; `closed` resolves when it has ended: by `close` or by its client. */
export interface McpStdio {
  close(): Promise<void>;
  readonly closed: Promise<void>;
}

/** Streams and dependencies of a connection. */
export interface McpStdioOptions {
  readonly input: Readable;
  readonly output: Writable;
  /** Default: the system clock. */
  readonly clock?: Clock;
  /** Default: warnings and errors, on standard error. */
  readonly logger?: Logger;
}

/** Serves until the connection is closed. No other code may write to `output` meanwhile. */
export function serveMcpStdio(
  parent: Parent,
  { input, output, clock = systemClock, logger: given }: McpStdioOptions,
): McpStdio {
  const logger = guardedLogger(given ?? createLogger({ level: "warn" }));
  const onerror = (error: Error) => logger.debug({ problem: messageOf(error) }, "MCP connection trouble");
  const acks = new Map<RequestId, () => Promise<unknown>>();
  const onceAnswered = (id: RequestId, ack: () => Promise<unknown>) => void acks.set(id, ack);
  let tellClosed = () => {};
  const closed = new Promise<void>((resolve) => {
    tellClosed = resolve;
  });
  const transport = new StdioTransport({
    input,
    output,
    answered(id) {
      const ack = acks.get(id);
      acks.delete(id);
      void ack?.();
    },
    failed: (error) => logger.warn({ problem: messageOf(error) }, "MCP connection closed after trouble"),
    closed: () => tellClosed(),
  });
  const { close } = serveStdio(() => createMcpServer({ parent, clock, logger, onceAnswered }), {
    onerror,
    transport,
  });
  return { close, closed };
}
