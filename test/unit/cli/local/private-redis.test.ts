import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { findServer, type PrivateRedis, startPrivateRedis } from "../../../../src/cli/local/private-redis.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { spawnNode } from "../../../helpers/processes.ts";
import { until } from "../../../helpers/until.ts";
import { findServerBinary } from "../../../setup/server-binary.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

async function started(): Promise<PrivateRedis> {
  const redis = await startPrivateRedis({ searchPath: process.env.PATH, clock: systemClock });
  closeAtEnd(() => redis.stop());
  return redis;
}

function scratch(): string {
  const directory = mkdtempSync(join(tmpdir(), "path-"));
  closeAtEnd(() => rmSync(directory, { recursive: true }));
  return directory;
}

/** Processes whose command line or open socket names `directory`. */
function processesOf(directory: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(directory);
      } catch {
        return false;
      }
    })
    .map(Number);
}

test("a private server answers on its socket, has no TCP port, and is set up as production demands", async () => {
  const server = await started();
  const redis = openRedis(server.url, "worker");
  closeAtEnd(() => closeRedis(redis));
  expect(await redis.config("GET", "port")).toEqual(["port", "0"]);
  expect(await redis.config("GET", "maxmemory-policy")).toEqual(["maxmemory-policy", "noeviction"]);
  expect(await redis.config("GET", "appendonly")).toEqual(["appendonly", "yes"]);
  expect(await redis.config("GET", "appendfsync")).toEqual(["appendfsync", "everysec"]);
  expect(await redis.config("GET", "save")).toEqual(["save", ""]);
  expect(await redis.config("GET", "dir")).toEqual(["dir", server.directory]);
});

test("stop leaves no process and no directory, and may be called twice", async () => {
  const server = await started();
  await server.stop();
  await server.stop();
  await server.gone;
  expect(existsSync(server.directory)).toBe(false);
  expect(processesOf(server.directory)).toEqual([]);
});

test("two servers do not know of each other", async () => {
  const [a, b] = await Promise.all([started(), started()]);
  const redis = [a, b].map((server) => openRedis(server.url, "worker"));
  closeAtEnd(() => redis.forEach(closeRedis));
  await redis[0]?.set("mine", "1");
  expect(await redis[1]?.get("mine")).toBeNull();
});

test("a server that dies by itself is noticed", async () => {
  const server = await started();
  const [pid] = processesOf(server.directory).filter((candidate) =>
    /^(redis|valkey)-server/.test(readFileSync(`/proc/${candidate}/comm`, "utf8")),
  );
  process.kill(pid ?? 0, "SIGKILL");
  await server.gone;
});

test("the server and its directory are gone after a kill -9 of the process that started it", async () => {
  const holder = await spawnNode("test/unit/cli/local/fixtures/holds-private-redis.ts");
  const directory = (await holder.waitForLine(/^directory /)).slice("directory ".length);
  expect(processesOf(directory).length).toBeGreaterThan(0);
  await holder.kill("SIGKILL");
  await until(() => processesOf(directory).length === 0, { what: "the server to be gone" });
  await until(() => !existsSync(directory), { what: "the directory to be gone" });
});

test("without a server on the PATH one sentence says what to install or set", async () => {
  for (const searchPath of [undefined, "", scratch()]) {
    await expect(startPrivateRedis({ searchPath, clock: systemClock })).rejects.toMatchObject({
      code: "setup_failed",
      message: expect.stringMatching(/^No Redis: set REDIS_URL, or install redis-server .*\.$/),
    });
  }
});

test("a server that cannot start is reported with its own last words and leaves nothing behind", async () => {
  const bin = scratch();
  writeFileSync(join(bin, "redis-server"), "#!/bin/sh\necho one\necho 'no room on the device'\nexit 1\n");
  chmodSync(join(bin, "redis-server"), 0o755);
  // Other processes make directories of that name in the one that all share.
  const temporary = scratch();
  vi.stubEnv("TMPDIR", temporary);
  await expect(startPrivateRedis({ searchPath: bin, clock: systemClock })).rejects.toMatchObject({
    code: "setup_failed",
    message: "redis-server could not be started: no room on the device",
  });
  expect(readdirSync(temporary)).toEqual([]);
});

test("a server that ends without a word, as on a full disk, is reported with what to look at", async () => {
  const bin = scratch();
  writeFileSync(join(bin, "redis-server"), "#!/bin/sh\nexit 1\n");
  chmodSync(join(bin, "redis-server"), 0o755);
  await expect(startPrivateRedis({ searchPath: bin, clock: systemClock })).rejects.toThrow(
    "redis-server could not be started: it ended at once and could write nothing down; make room where TMPDIR",
  );
});

test("redis-server is preferred to valkey-server, whatever the order of the PATH; a directory is no server", () => {
  const [first, second, third] = [scratch(), scratch(), scratch()];
  symlinkSync(tmpdir(), join(third, "redis-server"));
  expect(findServer(third)).toBeUndefined();
  const redisServer = findServerBinary() ?? "";
  symlinkSync(redisServer, join(first, "valkey-server"));
  expect(findServer(`${second}:${first}`)).toEqual({
    program: "valkey-server",
    path: join(first, "valkey-server"),
  });
  symlinkSync(redisServer, join(second, "redis-server"));
  expect(findServer(`${first}:${second}`)?.program).toBe("redis-server");
});
