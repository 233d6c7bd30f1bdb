/** Which timers a transport keeps for its requests, seen from its messages alone. */
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { expect, it } from "vitest";
import { endRequests } from "../../../../../src/worker/tools/mcp/request-end.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";

const call: JSONRPCMessage = { jsonrpc: "2.0", id: 1, method: "tools/call" };
const answer: JSONRPCMessage = { jsonrpc: "2.0", id: 1, result: {} };

/** A transport whose requests stay open, or fail if there is a `failure`. */
function scene(failure?: Error) {
  const clock = handClock();
  const transport: Transport = {
    start: async () => {},
    close: async () => {},
    async send() {
      if (failure) throw failure;
      await new Promise(() => {});
    },
  };
  return { clock, transport, requests: endRequests(transport, clock) };
}

it("a request that failed is forgotten: a late answer to it starts no timer", async () => {
  const { clock, transport, requests } = scene(new Error("refused"));
  await expect(transport.send(call)).rejects.toThrow("refused");
  requests.heard(answer);
  expect(clock.pending).toBe(0);
});

it("a transport that has closed leaves no timer of its requests behind", () => {
  const { clock, transport, requests } = scene();
  void transport.send(call);
  requests.heard(answer);
  requests.forget();
  expect(clock.pending).toBe(0);
});
