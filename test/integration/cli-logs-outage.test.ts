/** Guarantee: who follows the events misses none of them over a restart of Redis. */
import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { newUid } from "../../src/shared/protocol/ids.ts";
import { agentOf, keysUnder } from "../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis } from "../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { startHere } from "../helpers/program.ts";
import { startPrivateRedis, uniquePrefix } from "../helpers/redis.ts";
import { until } from "../helpers/until.ts";

test("logs --follow says once that Redis is away, and prints what comes when it is back", async () => {
  const server = await startPrivateRedis();
  const prefix = uniquePrefix();
  const redis = openRedis(server.url, "worker");
  closeAtEnd(() => closeRedis(redis));
  const parent = { tenant: "default", parentId: "planner-7" };
  const keys = keysUnder(prefix);
  // In one step, as the verbs do: a reader passes over a number without its line.
  const write = (uid: string, n: number) => {
    const number = `${Date.now() + n}-0`;
    const line = `${number} 1 {"type":"turn_started","turn":1}`;
    const both = redis.multi().rpush(keys.agent(agentOf(parent, uid)).timeline, line);
    return both.xadd(keys.parent(parent).history, number, "u", uid).exec();
  };
  const env = { REDIS_URL: server.url, SUBAGENT_PREFIX: prefix };
  const logs = startHere(["logs", "--follow", "--json", "--parent", "planner-7"], { cwd: tmpdir(), env });
  const [before, after] = [newUid(), newUid()];
  await write(before, 1);
  await until(() => logs.stdout.length === 1);
  await server.kill("SIGTERM");
  await logs.waitForLine(/Trying again until it is back/);
  await server.start();
  await write(after, 2);
  await until(() => logs.stdout.length === 2);
  expect(logs.stderr.filter((line) => line.includes("Trying again"))).toHaveLength(1);
  expect((await logs.kill("SIGTERM")).code).toBe(0);
});
