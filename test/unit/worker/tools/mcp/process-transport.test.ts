/** Guarantee: a connection ends with the server's process, and a server leaves none behind. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { LineSplitter } from "../../../../../src/worker/tools/mcp/lines.ts";
import { ProcessTransport } from "../../../../../src/worker/tools/mcp/process-transport.ts";
import { ServerConnection } from "../../../../../src/worker/tools/mcp/server.ts";
import { hasDied } from "../../../../../src/worker/tools/sandbox/process.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { spawnNode } from "../../../../helpers/processes.ts";
import { until } from "../../../../helpers/until.ts";

const SERVER = join(import.meta.dirname, "../../../../helpers/fixtures/stubborn-mcp-server.mjs");
const means = { clock: systemClock, logger: createLogger({ level: "silent" }) };
const { signal } = new AbortController();

/** A connection to the fixture, started as `command` with `args` before its own, and the processes that it has said were there. */
async function connectTo(command: string, args: readonly string[], ...flags: string[]) {
  const directory = await mkdtemp(join(tmpdir(), "mcp-process-"));
  const file = join(directory, "pids");
  const started = { command, args: [...args, SERVER, file, ...flags], env: {}, timeout_ms: 8_000 };
  const connection = new ServerConnection("near", started, means);
  const pids = async () => (await readFile(file, "utf8")).trim().split("\n").map(Number);
  closeAtEnd(async () => {
    await connection.stop();
    for (const pid of await pids()) if (isAlive(pid)) process.kill(pid, "SIGKILL");
    await rm(directory, { recursive: true });
  });
  return { connection, pids };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !hasDied({ pid, exitCode: null, signalCode: null });
  } catch {
    return false;
  }
}

describe("a server that dies during a call", () => {
  it.for([
    ["of its own group", "abandon"],
    ["of another group", "abandon_far"],
  ])(
    "has broken off at once though a child %s holds its streams, and is started again",
    async ([, name = ""]) => {
      const { connection, pids } = await connectTo(process.execPath, []);
      await expect(connection.call(name, {}, signal)).rejects.toThrow("near broke off during this call");
      const [first = 0] = await pids();
      const { content } = await connection.call("pid", {}, signal);
      expect(content).toMatchObject([{ type: "text", text: expect.stringMatching(/^\d+$/) }]);
      expect(content).not.toMatchObject([{ text: String(first) }]);
    },
  );

  it("takes along what it started in its own group", async () => {
    const { connection, pids } = await connectTo(process.execPath, []);
    await expect(connection.call("abandon", {}, signal)).rejects.toThrow();
    const [, child = 0] = await pids();
    expect(child).toBeGreaterThan(0);
    await until(() => !isAlive(child));
  });
});

it("a server behind a launcher is gone with its connection, though it heeds neither the end of its input nor SIGTERM", async () => {
  const launcher = ["-c", '"$0" "$@"; true', process.execPath];
  const { connection, pids } = await connectTo("/bin/sh", launcher, "--deaf");
  expect(await connection.list()).toMatchObject([{ name: "pid" }]);
  const [server = 0] = await pids();
  await until(() => !isAlive(server));
});

it("a server is gone when its worker is killed, though it heeds no end of its input", async () => {
  const directory = await mkdtemp(join(tmpdir(), "mcp-process-"));
  closeAtEnd(() => rm(directory, { recursive: true }));
  const file = join(directory, "pids");
  const owner = await spawnNode("test/helpers/fixtures/mcp-owner.ts", {
    args: ["/bin/sh", "-c", '"$0" "$@"; true', process.execPath, SERVER, file, "--deaf"],
  });
  await owner.waitForLine("connected");
  const [server = 0] = (await readFile(file, "utf8")).trim().split("\n").map(Number);
  closeAtEnd(() => void (isAlive(server) && process.kill(server, "SIGKILL")));
  expect(isAlive(server)).toBe(true);
  await owner.kill();
  await until(() => !isAlive(server));
});

/** Calls `work`; returns the turn of the event loop in which each piece of a server's output was read meanwhile. */
async function turnsOfPieces(work: () => Promise<unknown>): Promise<number[]> {
  const turns: number[] = [];
  let turn = 0;
  const next = () => {
    turn += 1;
    immediate = setImmediate(next);
  };
  let immediate = setImmediate(next);
  const { push } = LineSplitter.prototype;
  const spy = vi.spyOn(LineSplitter.prototype, "push").mockImplementation(function (
    this: LineSplitter,
    bytes: Buffer,
  ) {
    turns.push(turn);
    return push.call(this, bytes);
  });
  try {
    await work();
    return turns;
  } finally {
    spy.mockRestore();
    clearImmediate(immediate);
  }
}

describe("a server that writes without end", () => {
  const KB64 = 64 * 1024;
  const flooded = (line: string) => ({ text: line.repeat(KB64 / line.length), forMs: 3_000 });

  it.for([
    ["messages", '{"jsonrpc":"2.0","method":"notifications/x"}\n'],
    ["answers to nothing", '{"jsonrpc":"2.0","id":99999,"result":{}}\n'],
    ["what is no message", "{}\n"],
  ])("loses its connection beyond 1,000 messages a second: %s", async ([, line = ""]) => {
    const { connection } = await connectTo(process.execPath, []);
    await connection.call("pid", {}, signal);
    await expect(connection.call("print", flooded(line), signal)).rejects.toThrow(
      "near broke off during this call (it sent more than 1000 messages a second)",
    );
    expect(await connection.call("pid", {}, signal)).toMatchObject({ content: [{ type: "text" }] });
  });

  it.for([
    ["words", "x\n"],
    ["nothing", "\n"],
  ])(
    "holds up nobody with lines of %s, and is heard again: the event loop goes on after each piece",
    async ([, line = ""]) => {
      const { connection } = await connectTo(process.execPath, []);
      const [before] = (await connection.call("pid", {}, signal)).content;
      const turns = await turnsOfPieces(() => connection.call("print", flooded(line), signal));
      expect(turns.length).toBeGreaterThan(10);
      expect(new Set(turns).size).toBe(turns.length);
      expect((await connection.call("pid", {}, signal)).content).toEqual([before]);
    },
  );
});

it("of a server whose connection ends nothing is read any more", async () => {
  const print =
    'const line = JSON.stringify({ jsonrpc: "2.0", method: "x" }) + "\\n"; console.log(line.repeat(9));';
  const transport = new ProcessTransport({
    ...{ command: process.execPath, args: ["-e", print], env: {}, cwd: undefined, clock: systemClock },
    ...{
      limits: { bytes: 1_000, values: 1_000, depth: 10 },
      refused: () => undefined,
      complained: () => undefined,
    },
  });
  let heard = 0;
  const ended = new Promise<void>((resolve) => {
    transport.onclose = resolve;
  });
  transport.onmessage = () => {
    heard += 1;
    void transport.close();
  };
  await transport.start();
  await ended;
  expect(heard).toBe(1);
});

describe("a message of a server", () => {
  it.for([
    ["longer than 10485760 bytes", "x".repeat(10 * 1024 * 1024 + 1)],
    ["deeper than 1000 levels", `{"x":${"[".repeat(1_000)}`],
  ])("that is %s ends its connection", async ([what = "", text]) => {
    const { connection } = await connectTo(process.execPath, []);
    await expect(connection.call("print", { text }, signal)).rejects.toThrow(
      `near broke off during this call (it is ${what})`,
    );
  });

  it("has its bounds to itself", async () => {
    const { connection } = await connectTo(process.execPath, []);
    const text = `${"x".repeat(6 * 1024 * 1024)}\n{"x":${"[".repeat(600)}\n`;
    expect(await connection.call("print", { text: text.repeat(2) }, signal)).toEqual({ content: [] });
  });
});
