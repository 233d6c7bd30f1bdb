/** The MCP server over standard input and output, for one client that starts this process. */
import type { RequestId } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import type { Parent } from "../../producer/parent.ts";
import type { Clock } from "../../shared/clock.ts";
import type { Logger } from "../../shared/logger.ts";
import { createMcpServer } from "./server.ts";

/** Serves until the answer is called. Nothing but the protocol may go to standard output meanwhile. */
export function serveMcpStdio(parent: Parent, clock: Clock, logger: Logger): () => Promise<void> {
  const onerror = ({ message }: Error) => logger.debug({ problem: message }, "MCP connection trouble");
  const acks = new Map<RequestId, () => Promise<unknown>>();
  const transport = transportThatTells((id) => {
    const ack = acks.get(id);
    acks.delete(id);
    void ack?.();
  });
  const onceAnswered = (id: RequestId, ack: () => Promise<unknown>) => void acks.set(id, ack);
  const { close } = serveStdio(() => createMcpServer({ parent, clock, onceAnswered }), {
    onerror,
    transport,
  });
  return close;
}

/** Standard input and output; tells the id of each request whose answer was written. */
function transportThatTells(answered: (id: RequestId) => void): StdioServerTransport {
  const transport = new StdioServerTransport();
  const write = transport.send.bind(transport);
  transport.send = async (message) => {
    await write(message);
    if (!("method" in message) && message.id !== undefined) answered(message.id);
  };
  return transport;
}
