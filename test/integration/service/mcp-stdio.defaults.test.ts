/** Guarantee: a program of one's own serves MCP over two streams with nothing but a parent. */
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { serveMcpStdio } from "../../../src/service/mcp/stdio.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openStage } from "../../stage/stage.ts";

const META = "io.modelcontextprotocol/";

test("a task is answered with its reply, without a clock and a logger", async () => {
  const stage = await openStage({ scenario: { turns: [{ content: [{ type: "text", text: "done" }] }] } });
  await stage.startWorker();
  const [input, output] = [new PassThrough(), new PassThrough()];
  const { close } = serveMcpStdio(stage.parent(), { input, output });
  closeAtEnd(close);
  const _meta = {
    [`${META}protocolVersion`]: "2026-07-28",
    [`${META}clientInfo`]: { name: "test", version: "1" },
    [`${META}clientCapabilities`]: {},
  };
  const params = { name: "task", arguments: { prompt: "work" }, _meta };
  input.write(`${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params })}\n`);
  const { value } = await output.setEncoding("utf8").iterator().next();
  expect(JSON.parse(String(value))).toMatchObject({ id: 1, result: { content: [{ text: "done" }] } });
});
