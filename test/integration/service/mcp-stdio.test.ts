/** The MCP server over standard input and output goes on after every line, and keeps nothing that its client does not read. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { bundled } from "../../helpers/bundle.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const MIB = 1_048_576;

async function startServer() {
  const stage = await openStage();
  const own = { REDIS_URL: stage.url, SUBAGENT_PREFIX: stage.prefix, SUBAGENT_MODEL: "offline-1" };
  const env = { PATH: process.env.PATH ?? "", ...own };
  const child = spawn(process.execPath, [await bundled("src/cli/main.ts"), "mcp"], {
    env,
    stdio: ["pipe", "pipe", "pipe"],
  });
  closeAtEnd(async () => {
    if (child.kill("SIGKILL")) await once(child, "close");
  });
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    log += text;
  });
  const send = (id: number, params?: unknown, method = "tools/call") =>
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
  return { child, send, log: () => log };
}

function answersOf(child: ChildProcess & { stdout: NonNullable<ChildProcess["stdout"]> }) {
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return async () => JSON.parse((await lines.next()).value);
}

test("a message of more than 8 MB is refused by its id, and the next one is answered", async () => {
  const { child, send } = await startServer();
  const answer = answersOf(child);
  send(1, { name: "task", arguments: { prompt: "x".repeat(9 * MIB) } });
  expect(await answer()).toMatchObject({
    id: 1,
    error: {
      code: -32_600,
      message: expect.stringContaining("more than 8 MB, nothing was done"),
      data: { code: "too_large", retryable: false },
    },
  });
  child.stdin.write(`${"x".repeat(9 * MIB)}\n`);
  expect(await answer()).toMatchObject({ id: null, error: { data: { code: "too_large" } } });
  send(2, {}, "tools/list");
  expect(await answer()).toMatchObject({ id: 2, result: { tools: expect.any(Array) } });
});

test("what would hold the server up is refused before it is parsed, as over HTTP", async () => {
  const { child, send } = await startServer();
  const answer = answersOf(child);
  const call = (id: number, given: string) =>
    child.stdin.write(
      `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"task","arguments":${given}}}\n`,
    );
  call(1, `{"prompt":${"[".repeat(10_000)}${"]".repeat(10_000)}}`);
  expect(await answer()).toMatchObject({
    id: 1,
    error: {
      code: -32_600,
      message: expect.stringContaining("message was refused, nothing was done: it nests"),
    },
  });
  call(2, `{"prompt":[${"0,".repeat(60_000)}0]}`);
  expect(await answer()).toMatchObject({ error: { message: expect.stringContaining("50000 values") } });
  const fields = Object.fromEntries(Array.from({ length: 1_001 }, (_, number) => [`field${number}`, number]));
  call(3, JSON.stringify(fields));
  expect(await answer()).toMatchObject({
    id: 3,
    error: { message: expect.stringContaining("more than 1000 fields"), data: { code: "invalid_input" } },
  });
  child.stdin.write(Buffer.from([0x7b, 0xff, 0x7d, 0x0a]));
  expect(await answer()).toMatchObject({ error: { message: expect.stringContaining("not UTF-8") } });
  child.stdin.write("no JSON\n \n");
  expect(await answer()).toMatchObject({ id: null, error: { code: -32_700 } });
  send(4, { name: "task", arguments: "x" });
  expect(await answer()).toMatchObject({
    id: 4,
    error: {
      code: -32_602,
      message: "tools/call refused, nothing was done: arguments: must be an object.",
    },
  });
  send(5, {}, "tools/list");
  expect(await answer()).toMatchObject({ id: 5 });
});

test("while a client does not read, the server stops to read it, and warns of nothing", async () => {
  const { child, log } = await startServer();
  // About a hundred megabytes of answers.
  const requests = 6_000;
  let sent = 0;
  const sending = (async () => {
    for (let id = 1; id <= requests; id++) {
      const text = JSON.stringify({ jsonrpc: "2.0", id, method: "tools/list", params: {} });
      await new Promise((resolve) => child.stdin.write(`${text}${" ".repeat(500)}\n`, resolve));
      sent = id;
    }
  })();
  await once(child.stdout, "readable");
  let seen = -1;
  const isAtRest = () => {
    const last = seen;
    seen = sent;
    return seen === last;
  };
  await until(isAtRest, { everyMs: 1_500 });
  expect(sent).toBeLessThan(requests);
  const answer = answersOf(child);
  for (let id = 1; id <= requests; id++) expect(await answer()).toMatchObject({ id });
  await sending;
  expect(log()).toBe("");
});
