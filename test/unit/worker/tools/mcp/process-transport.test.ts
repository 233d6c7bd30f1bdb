/** Guarantee: a connection ends with the server's process, and a server leaves none behind. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { ServerConnection } from "../../../../../src/worker/tools/mcp/server.ts";
import { hasDied } from "../../../../../src/worker/tools/sandbox/process.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
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
