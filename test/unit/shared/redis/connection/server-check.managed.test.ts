import { expect, test } from "vitest";
import { type AskedServer, checkServer } from "../../../../../src/shared/redis/connection/server-check.ts";

const NO_RIGHTS = "NOPERM this user has no permissions to run the 'info' command";

test("a server that tells its settings and not its state is read by its settings", async () => {
  const settings: Record<string, string> = {
    appendonly: "yes",
    appendfsync: "everysec",
    "maxmemory-policy": "noeviction",
  };
  const server = {
    info: () => Promise.reject(new Error(NO_RIGHTS)),
    config: async (_get: string, name: string) => [name, settings[name]],
  } as AskedServer;
  expect(await checkServer(server)).toMatchObject({ aof: "on", evictionPolicy: "noeviction", problems: [] });
});

test("a server that has CONFIG without GET keeps its settings to itself", async () => {
  const server = {
    info: async () =>
      "redis_version:7.0.15\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\nrole:master\r\n",
    config: () => Promise.reject(new Error("ERR unknown subcommand 'GET'. Try CONFIG HELP.")),
  } as AskedServer;
  expect(await checkServer(server)).toMatchObject({ aof: "on", appendfsync: "unknown", problems: [] });
});

test("how often a file is synced that is not written is no problem of its own", async () => {
  const server = {
    info: async () =>
      "redis_version:7.0.15\r\naof_enabled:0\r\nmaxmemory_policy:noeviction\r\nrole:master\r\n",
    config: async (_get: string, name: string) => (name === "appendfsync" ? [name, "no"] : []),
  } as AskedServer;
  expect((await checkServer(server)).problems.map(({ severity }) => severity)).toEqual(["unsafe"]);
});
