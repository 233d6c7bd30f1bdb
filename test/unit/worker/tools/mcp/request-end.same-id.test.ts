import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { expect, it } from "vitest";
import { endRequests } from "../../../../../src/worker/tools/mcp/request-end.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";

it("a server's own request is no answer to a request that has the same id", () => {
  const clock = handClock();
  const transport: Transport = {
    start: async () => {},
    close: async () => {},
    send: () => new Promise(() => {}),
  };
  const requests = endRequests(transport, clock);
  const call: JSONRPCMessage = { jsonrpc: "2.0", id: 1, method: "tools/call" };
  void transport.send(call);
  requests.heard({ jsonrpc: "2.0", id: 1, method: "ping" });
  expect(clock.pending).toBe(0);
  requests.heard({ jsonrpc: "2.0", id: 1, result: {} });
  expect(clock.pending).toBe(1);
});
