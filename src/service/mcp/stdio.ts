/** The MCP server over standard input and output, for one client that starts this process. */
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import type { Parent } from "../../producer/parent.ts";
import type { Clock } from "../../shared/clock.ts";
import type { Logger } from "../../shared/logger.ts";
import { createMcpServer } from "./server.ts";

/** Serves until the answer is called. Nothing but the protocol may go to standard output meanwhile. */
export function serveMcpStdio(parent: Parent, clock: Clock, logger: Logger): () => Promise<void> {
  const onerror = ({ message }: Error) => logger.debug({ problem: message }, "MCP connection trouble");
  const { close } = serveStdio(() => createMcpServer({ parent, clock }), { onerror });
  return close;
}
