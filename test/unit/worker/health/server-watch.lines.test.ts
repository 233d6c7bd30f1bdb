/** What a watch logs about its server, and how long it says that the server refuses it. */
import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { createServerWatch } from "../../../../src/worker/health/server-watch.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { startPrivateRedis } from "../../../helpers/redis.ts";
import { until } from "../../../helpers/until.ts";

interface Line {
  level: number;
  msg: string;
  problems?: string[];
  reasons?: string[];
}

/** A connection that this test uses itself, and one that is watched outside of production mode. */
async function watching() {
  const { url } = await startPrivateRedis();
  const [ours, redis] = [openRedis(url, "worker"), openRedis(url, "worker")];
  for (const connection of [ours, redis]) closeAtEnd(() => closeRedis(connection));
  const clock = handClock();
  const lines: Line[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(JSON.parse(line)) } });
  const watch = createServerWatch(redis, { clock, logger, strict: false });
  closeAtEnd(() => watch.stop());
  return { ours, redis, clock, lines, watch };
}

test("a replica is said once, however often it is asked, and is waited for until it takes writes", async () => {
  const { ours, clock, lines, watch } = await watching();
  await ours.call("REPLICAOF", "127.0.0.1", "1");
  const admitted = watch.admit();
  for (const _ of [1, 2, 3]) {
    await until(() => clock.pending === 1);
    clock.advance(1_000);
  }
  await until(() => clock.pending === 1);
  await ours.call("REPLICAOF", "NO", "ONE");
  clock.advance(1_000);
  await admitted;
  const waits = lines.filter(({ msg }) => msg === "Waiting for a Redis that takes writes");
  expect(waits).toMatchObject([{ level: 40, reasons: [expect.stringContaining("replica")] }]);
});

test("outside of production mode a careless server is used, and one line says what production needs", async () => {
  const { ours, lines, watch } = await watching();
  await ours.config("SET", "appendonly", "no");
  await ours.config("SET", "maxmemory-policy", "allkeys-lru");
  await watch.admit();
  expect(lines).toMatchObject([{ level: 40, msg: "Redis is not set as production needs it" }]);
  expect(lines[0]?.problems?.join(" ")).toMatch(/appendonly yes.*maxmemory-policy noeviction/s);
});

test("a server that is well set is used without a word", async () => {
  const { lines, watch } = await watching();
  await watch.admit();
  expect(lines).toEqual([]);
});

test("a server that refuses the connection says so until it accepts it", async () => {
  const { ours, redis, watch } = await watching();
  await watch.admit();
  await ours.config("SET", "requirepass", "a-password");
  redis.disconnect(true);
  await until(() => watch.refusal() !== undefined);
  await ours.config("SET", "requirepass", "");
  await until(() => redis.status === "ready");
  expect(watch.refusal()).toBeUndefined();
});
