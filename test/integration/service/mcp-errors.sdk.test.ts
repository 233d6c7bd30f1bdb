/** Guarantee: what the SDK of MCP refuses by itself, and a wrong cursor, come with a code of this API, and says whether to try again. */
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { serveMcpStdio } from "../../../src/service/mcp/stdio.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { startApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const LIST = { jsonrpc: "2.0", id: 1, method: "tools/list" };
/** By what is wrong: the method and parameters of a request, and what its error has. */
const REFUSED = [
  ["resources/list", {}, { code: -32_601, data: { code: "not_found", retryable: false } }],
  ["no/such", {}, { code: -32_601, data: { code: "not_found", retryable: false } }],
  ["tools/list", { cursor: 5 }, { code: -32_602, data: { code: "invalid_input", retryable: false } }],
] as const;

test("over HTTP, in both revisions of the protocol", async () => {
  const { url, ask } = await startApi({ client: (await openStage()).client(), mounts: [mcpMount()] });
  for (const [method, params, error] of REFUSED) {
    expect((await askMcp(`${url}/mcp`, method, params)).error, method).toMatchObject(error);
    const headers = { accept: "application/json, text/event-stream" };
    const { body } = await ask("POST", "/mcp", { headers, body: { ...LIST, method, params } });
    expect(JSON.parse(/^data: (.*)$/m.exec(body)?.[1] ?? "").error, method).toMatchObject(error);
  }
  const unacceptable = await ask("POST", "/mcp", { headers: { accept: "text/html" }, body: LIST });
  expect(unacceptable).toMatchObject({
    status: 406,
    body: { error: { code: -32_000, data: { code: "invalid_input", retryable: false } } },
  });
});

test("over standard input and output", async () => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const logger = createLogger({ level: "silent" });
  const { close } = serveMcpStdio((await openStage()).parent(), {
    input,
    output,
    logger,
    clock: systemClock,
  });
  closeAtEnd(close);
  let told = "";
  output.setEncoding("utf8").on("data", (text: string) => {
    told += text;
  });
  const send = (id: number, method: string, params: object) =>
    input.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
  const named = {
    protocolVersion: "1999-01-01",
    clientInfo: { name: "old", version: "1" },
    clientCapabilities: {},
  };
  const _meta = Object.fromEntries(
    Object.entries(named).map(([name, value]) => [`io.modelcontextprotocol/${name}`, value]),
  );
  // The SDK refuses it before it has made a server.
  send(-1, "tools/list", { _meta });
  for (const [id, [method, params]] of REFUSED.entries()) send(id, method, params);
  await until(() => told.split("\n").length > REFUSED.length + 1);
  const answers: { id: number; error: object }[] = told
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(answers[0]).toMatchObject({
    id: -1,
    error: { data: { supported: expect.anything(), code: "invalid_input", retryable: false } },
  });
  for (const [id, [method, , error]] of REFUSED.entries())
    expect(
      answers.find((answer) => answer.id === id),
      method,
    ).toMatchObject({ error });
});
