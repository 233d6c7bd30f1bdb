import { expect, test } from "vitest";
import { type AskedServer, checkServer } from "../../../../../src/shared/redis/connection/server-check.ts";

/** A server with this state of its files and these settings. */
function server(state: string, settings: Record<string, string> = {}): AskedServer {
  return {
    info: async () =>
      `redis_version:7.0.15\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\nrole:master\r\n${state}`,
    config: async (_get: string, name: string) =>
      settings[name] === undefined ? [] : [name, settings[name]],
  } as AskedServer;
}

const SNAPSHOTS = { save: "3600 1", "stop-writes-on-bgsave-error": "yes" };
const FAILED = "rdb_last_bgsave_status:err";

test("a server that cannot write its append-only file takes no new work", async () => {
  const { troubles, problems } = await checkServer(server("aof_last_write_status:err"));
  expect(troubles).toEqual([
    "Redis refuses writes, because it cannot write its append-only file: is its disk full?",
  ]);
  expect(problems).toEqual([]);
  expect((await checkServer(server("aof_last_write_status:ok"))).troubles).toEqual([]);
});

test("a snapshot that failed is trouble only where Redis makes them, and then refuses writes", async () => {
  const troubles = async (state: string, settings: Record<string, string>) =>
    (await checkServer(server(state, settings))).troubles;
  expect(await troubles(FAILED, SNAPSHOTS)).toEqual([
    "Redis refuses writes, because it cannot write a snapshot: is its disk full?",
  ]);
  expect(await troubles("rdb_last_bgsave_status:ok", SNAPSHOTS)).toEqual([]);
  expect(await troubles(FAILED, { ...SNAPSHOTS, save: "" })).toEqual([]);
  expect(await troubles(FAILED, { ...SNAPSHOTS, "stop-writes-on-bgsave-error": "no" })).toEqual([]);
  expect(await troubles(FAILED, {})).toEqual([]);
});
