import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { startTestEmbedded } from "../../../helpers/embedded-redis.ts";
import { spawnNode } from "../../../helpers/processes.ts";
import { until } from "../../../helpers/until.ts";

function connectTo(url: string): Redis {
  const redis = new Redis(url, { retryStrategy: () => null });
  redis.on("error", () => {});
  closeAtEnd(() => redis.disconnect());
  return redis;
}

/** Whether the process is there; one that has ended and is not collected yet is not. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** Local addresses of the listening TCP sockets with this port, as the kernel writes them. */
function listenersOn(port: number): string[] {
  const tables = ["/proc/net/tcp", "/proc/net/tcp6"].filter(existsSync);
  const rows = tables.flatMap((table) => readFileSync(table, "utf8").split("\n").slice(1));
  const wanted = port.toString(16).toUpperCase().padStart(4, "0");
  return rows.flatMap((row) => {
    const [, local = "", , state] = row.trim().split(/\s+/);
    const [address = "", heard] = local.split(":");
    return heard === wanted && state === "0A" ? [address] : [];
  });
}

test("the server listens on 127.0.0.1 alone and wants the password that stands in its address", async () => {
  const server = await startTestEmbedded();
  const redis = connectTo(server.url);
  await redis.set("mine", "1");
  const { port } = new URL(server.url);
  expect(listenersOn(Number(port))).toEqual(["0100007F"]);
  const stranger = connectTo(`redis://127.0.0.1:${port}`);
  await expect(stranger.get("mine")).rejects.toThrow("NOAUTH");
});

test("it says noeviction, so nobody is warned about a policy that does not exist here", async () => {
  const redis = connectTo((await startTestEmbedded()).url);
  expect(await redis.config("GET", "maxmemory-policy")).toEqual(["maxmemory-policy", "noeviction"]);
});

test("the server's process gets nothing of our environment and stands in a session of its own", async () => {
  const { pid } = await startTestEmbedded();
  const names = readFileSync(`/proc/${pid}/environ`, "utf8")
    .split("\0")
    .map((line) => line.split("=")[0] ?? "");
  expect(names.filter((name) => name !== "" && !name.startsWith("NODE_CHANNEL"))).toEqual([]);
  const session = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ")[3];
  expect(session).toBe(String(pid));
});

test("stop leaves no process, and may be called twice", async () => {
  const server = await startTestEmbedded();
  await server.stop();
  await server.stop();
  await server.gone;
  expect(isRunning(server.pid)).toBe(false);
});

test("two servers do not know of each other", async () => {
  const servers = await Promise.all([startTestEmbedded(), startTestEmbedded()]);
  const [a, b] = servers.map(({ url }) => connectTo(url));
  await a?.set("mine", "1");
  expect(await b?.get("mine")).toBeNull();
});

test("a server that dies by itself is noticed", async () => {
  const server = await startTestEmbedded();
  process.kill(server.pid, "SIGKILL");
  await server.gone;
});

test("the server is gone after a kill -9 of the process that started it", async () => {
  const holder = await spawnNode("test/unit/cli/local/fixtures/holds-embedded-redis.ts");
  const pid = Number((await holder.waitForLine(/^server /)).slice("server ".length));
  expect(isRunning(pid)).toBe(true);
  await holder.kill("SIGKILL");
  await until(() => !isRunning(pid), { what: "the server to be gone" });
});

test("a server whose Lua damages numbers is refused, and no process is left", async () => {
  const before = childrenOfOurs();
  const preload = join(import.meta.dirname, "fixtures", "keeps-lua-as-it-is.ts");
  await expect(startTestEmbedded(preload)).rejects.toMatchObject({
    code: "setup_failed",
    message:
      "The embedded Redis could not be started: a number that should read 1730000000123456.5 reached a command as 1.7300000001235e+15",
  });
  expect(childrenOfOurs()).toEqual(before);
});

test("a server that cannot start is reported with its own last words", async () => {
  await expect(startTestEmbedded("./no-such-module.mjs")).rejects.toMatchObject({
    code: "setup_failed",
    message: expect.stringMatching(/^The embedded Redis could not be started: Error.*no-such-module\.mjs/),
  });
});

/** Process ids of this process' children. */
function childrenOfOurs(): string[] {
  const task = `/proc/${process.pid}/task`;
  return readdirSync(task).flatMap((thread) =>
    readFileSync(join(task, thread, "children"), "utf8")
      .split(" ")
      .filter(Boolean),
  );
}
