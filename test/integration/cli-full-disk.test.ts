/** Guarantee: on a Redis that cannot write to its disk an operator is told so, and still sees what there is. */
import { mkdirSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { closeRedis, openRedis } from "../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { runHere } from "../helpers/program.ts";
import { startPrivateRedis, uniquePrefix } from "../helpers/redis.ts";
import { until } from "../helpers/until.ts";

test("the doctor and the verbs name the disk of a Redis that refuses writes, and the doctor sees agents as ever", async () => {
  const { url } = await startPrivateRedis();
  const redis = openRedis(url, "worker");
  closeAtEnd(() => closeRedis(redis));
  const env = {
    REDIS_URL: url,
    SUBAGENT_PREFIX: uniquePrefix(),
    SUBAGENT_LOG_LEVEL: "silent",
    ANTHROPIC_API_KEY: undefined,
    ANTHROPIC_BASE_URL: undefined,
  };
  const say = (...args: string[]) => runHere(args, { cwd: tmpdir(), env });
  expect(await say("spawn", "counter", "--prompt", "wait")).toMatchObject({ code: 0 });
  // A directory with the name of the snapshot: Redis can write no file there.
  const [, directory = ""] = (await redis.config("GET", "dir")) as string[];
  const snapshot = join(directory, "dump.rdb");
  mkdirSync(snapshot);
  closeAtEnd(() => rmdirSync(snapshot));
  await redis.config("SET", "save", "3600 1");
  await redis.bgsave();
  await until(async () => /rdb_last_bgsave_status:err/.test(await redis.info("persistence")));
  const { code, stdout, stderr } = await say("doctor", "--json");
  expect(code, stderr.join("\n")).toBe(1);
  const { findings, areas } = JSON.parse(stdout.join());
  expect(findings).toContainEqual(
    expect.objectContaining({
      check: "redis_trouble",
      severity: "error",
      what: "Redis refuses writes, because it cannot write a snapshot: is its disk full?",
    }),
  );
  expect(areas.find((each: { area: string }) => each.area === "agents").summary).toMatch(/^1 live/);
  const paused = await say("pause");
  expect(paused.code).toBe(3);
  expect(paused.stderr.join("\n")).toMatch(/refuses writes \(MISCONF .*\): make room on its disk/);
});
