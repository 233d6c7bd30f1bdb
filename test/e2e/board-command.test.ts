/** The board from the built command line, as real processes: `npm run build` comes first. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { spawnBuilt } from "../helpers/processes.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";
import { freePort } from "../helpers/redis-server.ts";
import { until } from "../helpers/until.ts";

/** Starts a command in an empty directory, joined to `redis` or to none. */
function start(args: readonly string[], redis: string | undefined) {
  const cwd = mkdtempSync(join(tmpdir(), "board-command-"));
  closeAtEnd(() => rmSync(cwd, { recursive: true, force: true }));
  const env = { REDIS_URL: redis, SUBAGENT_PREFIX: uniquePrefix(), SUBAGENT_LOG_LEVEL: undefined };
  return spawnBuilt(args, { cwd, env });
}

test("board shows the queue of REDIS_URL and ends with 0 when told to stop", async () => {
  const running = await start(["board", "--port", "0"], redisUrl());
  const ready = await running.waitForLine(/^ready: board http:\/\/127\.0\.0\.1:\d+\/admin\/queues on redis:/);
  const url = ready.split(" ")[2] ?? "";
  await until(async () => (await fetch(`${url}/api/queues`)).status === 200);
  expect((await running.kill("SIGTERM")).code).toBe(0);
});

test("board waits for a Redis that is not there yet, healthy all the while", async () => {
  const running = await start(["board", "--port", "0"], `redis://127.0.0.1:${await freePort()}`);
  const ready = await running.waitForLine(/^ready: board /);
  const health = await fetch(new URL("/healthz", ready.split(" ")[2]));
  expect(await health.json()).toEqual({ status: "ok", redis: "away" });
  expect((await running.kill("SIGTERM")).code).toBe(0);
});

test("board without REDIS_URL, and on a port that is taken, is refused in one sentence", async () => {
  const without = await start(["board"], undefined);
  expect((await without.closed).code).toBe(3);
  expect(without.stderr).toEqual([expect.stringMatching(/^subagent-queue: REDIS_URL is not set: .*\.$/)]);

  const port = new URL(redisUrl()).port;
  const taken = await start(["board", "--port", port], redisUrl());
  expect((await taken.closed).code).toBe(3);
  expect(taken.stderr.at(-1)).toMatch(/^subagent-queue: The board cannot listen on 127\.0\.0\.1:\d+ .*\.$/);
});

test("a start that stays up names the board's address, and the board is there", async () => {
  const running = await start(["start"], redisUrl());
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
