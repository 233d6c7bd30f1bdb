/** The board from the built command line, as a real process (`npm run build` comes first), refusals and `start` in this one. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { closeRedis, openRedis } from "../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { spawnBuilt } from "../helpers/processes.ts";
import { runHere, startHere } from "../helpers/program.ts";
import { redisUrl, startPrivateRedis, uniquePrefix } from "../helpers/redis.ts";
import { freePort } from "../helpers/redis-server.ts";
import { until } from "../helpers/until.ts";

/** An empty directory, joined to `redis` or to none. */
function place(redis: string | undefined) {
  const cwd = mkdtempSync(join(tmpdir(), "board-command-"));
  closeAtEnd(() => rmSync(cwd, { recursive: true, force: true }));
  const env = { REDIS_URL: redis, SUBAGENT_PREFIX: uniquePrefix(), SUBAGENT_LOG_LEVEL: undefined };
  return { cwd, env };
}

test("board shows the queue of REDIS_URL and ends with 0 when told to stop", async () => {
  const running = await spawnBuilt(["board", "--port", "0"], place(redisUrl()));
  const ready = await running.waitForLine(/^ready: board http:\/\/127\.0\.0\.1:\d+\/admin\/queues on redis:/);
  const url = ready.split(" ")[2] ?? "";
  await until(async () => (await fetch(`${url}/api/queues`)).status === 200);
  expect((await running.kill("SIGTERM")).code).toBe(0);
});

test("board waits for a Redis that is not there yet, healthy all the while", async () => {
  const running = startHere(["board", "--port", "0"], place(`redis://127.0.0.1:${await freePort()}`));
  const ready = await running.waitForLine(/^ready: board /);
  const health = await fetch(new URL("/healthz", ready.split(" ")[2]));
  expect(await health.json()).toEqual({ status: "ok", redis: "away" });
  expect((await running.kill("SIGTERM")).code).toBe(0);
});

test("board is refused by a Redis that answers with another password, or asks for one: it never says ready", async () => {
  const locked = await startPrivateRedis();
  const admin = openRedis(locked.url, "worker");
  closeAtEnd(() => closeRedis(admin));
  await admin.config("SET", "requirepass", "canary-1");
  for (const [url, word] of [
    [locked.url.replace("//", "//:canary-2@"), "WRONGPASS"],
    [locked.url, "NOAUTH"],
  ] as const) {
    const { code, stdout, stderr } = await runHere(["board", "--port", "0"], place(url));
    expect({ code, stdout }).toEqual({ code: 3, stdout: [] });
    expect(stderr.at(-1)).toMatch(
      new RegExp(
        `^subagent-queue: Redis at redis:\\S+ cannot be used \\(${word} .*\\): correct REDIS_URL, or fix that server\\.$`,
      ),
    );
    expect(stderr.join()).not.toContain("canary");
  }
});

test("board without REDIS_URL, and on a port that is taken, is refused in one sentence", async () => {
  const without = await runHere(["board"], place(undefined));
  expect(without.code).toBe(3);
  expect(without.stderr).toEqual([expect.stringMatching(/^subagent-queue: REDIS_URL is not set: .*\.$/)]);

  const port = new URL(redisUrl()).port;
  const taken = await runHere(["board", "--port", port], place(redisUrl()));
  expect(taken.code).toBe(3);
  expect(taken.stderr.at(-1)).toMatch(/^subagent-queue: The board cannot listen on 127\.0\.0\.1:\d+ .*\.$/);
});

test("a start that stays up names the board's address, and the board is there", async () => {
  const running = startHere(["start"], place(redisUrl()));
  const line = await running.waitForLine(/^ +Bull Board +http/);
  const url = line.split(" ").at(-1) ?? "";
  const counts = await until(async () => {
    const { queues } = (await (await fetch(`${url}/api/queues`)).json()) as {
      queues: { counts: Record<string, number> }[];
    };
    return queues[0]?.counts;
  });
  expect(counts).toMatchObject({ completed: 3 });
  expect((await running.kill("SIGINT")).code).toBe(0);
});
