/** Guarantee: in production mode no schedule is stored on a Redis that may lose it; those that are there can be seen and removed. */
import { expect, test } from "vitest";
import { testClient, testParent } from "../helpers/parents.ts";
import { runHere } from "../helpers/program.ts";
import { CLEAN } from "../helpers/program-on-stage.ts";
import { startPrivateRedis, uniquePrefix } from "../helpers/redis.ts";

test("a new schedule is refused, by a program and by the command line; one that is there is listed and removed", async () => {
  const { url: redisUrl } = await startPrivateRedis({ arguments: ["--maxmemory-policy", "allkeys-lru"] });
  const there = { redisUrl, prefix: uniquePrefix() };
  const hourly = { schedule_id: "hourly", every_ms: 3_600_000, prompt: "look" };
  await testParent(testClient(there)).schedule(hourly);
  const strict = testParent(testClient({ ...there, strict: true }));
  await expect(strict.schedule({ ...hourly, schedule_id: "daily" })).rejects.toMatchObject({
    code: "invalid_config",
  });
  const env = {
    ...{ ...CLEAN, REDIS_URL: redisUrl, SUBAGENT_PREFIX: there.prefix, NODE_ENV: "production" },
    ...{ SUBAGENT_PARENT: strict.parentId, SUBAGENT_MODEL: "offline-1", SUBAGENT_LOG_LEVEL: "silent" },
  };
  const program = (...args: string[]) => runHere(["schedule", ...args], { cwd: process.cwd(), env });
  const refused = await program("daily", "--every", "1d", "--prompt", "look");
  expect([refused.code, refused.stderr.join()]).toEqual([3, expect.stringContaining("production mode")]);
  expect((await program()).stdout).toEqual([expect.stringMatching(/^hourly /)]);
  expect((await program("hourly", "--remove")).stdout).toEqual(["hourly removed"]);
});
