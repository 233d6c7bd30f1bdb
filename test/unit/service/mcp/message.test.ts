/** What a call of a wrong form is answered with, before any handler of the library sees it. */
import { expect, test } from "vitest";
import { refusalOfCall } from "../../../../src/service/mcp/message.ts";

const call = (params: unknown) => ({ jsonrpc: "2.0", id: "c-1", method: "tools/call", params });

test("a refused call has its id, a code for programs, and each field that is wrong", () => {
  expect(refusalOfCall(call({ name: 5, arguments: {} }))).toMatchObject({
    jsonrpc: "2.0",
    id: "c-1",
    error: {
      code: -32_602,
      data: { code: "invalid_input", retryable: false, details: { issues: [{ field: "name" }] } },
    },
  });
});

test("a call of a right form, and every other message, is left to the library", () => {
  expect(refusalOfCall(call({ name: "task", arguments: { prompt: "go" } }))).toBeUndefined();
  expect(refusalOfCall({ jsonrpc: "2.0", id: 1, method: "tools/list", params: 5 })).toBeUndefined();
  // Nobody waits for the answer to a notification.
  expect(refusalOfCall({ jsonrpc: "2.0", method: "tools/call", params: 5 })).toBeUndefined();
});
