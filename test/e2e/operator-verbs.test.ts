/** The verbs for operators on a real Redis: each once as a real process of the built command line, refusals in this one. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CHECK_MS } from "../../src/producer/task-wait-reasons.ts";
import { type Clock, systemClock } from "../../src/shared/clock.ts";
import { keysUnder } from "../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis } from "../../src/shared/redis/connection/connection.ts";
import { createWorkerDirectory } from "../../src/shared/redis/workers.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { spawnBuilt } from "../helpers/processes.ts";
import { runHere, startHere } from "../helpers/program.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";
import { until } from "../helpers/until.ts";

const VARIABLE = /^(REDIS_URL|ANTHROPIC_|SUBAGENT_|NODE_ENV|NO_COLOR|FORCE_COLOR)/;
const CLEAN = Object.fromEntries(
  Object.keys(process.env)
    .filter((name) => VARIABLE.test(name))
    .map((name) => [name, undefined]),
);

/** An installation of its own on the shared Redis. */
function place() {
  const cwd = mkdtempSync(join(tmpdir(), "operator-"));
  closeAtEnd(() => rmSync(cwd, { recursive: true, force: true }));
  writeFileSync(join(cwd, "a.js"), "// TODO one\n");
  const env: Record<string, string | undefined> = {
    ...CLEAN,
    REDIS_URL: redisUrl(),
    SUBAGENT_PREFIX: uniquePrefix(),
  };
  const start = (...args: string[]) => spawnBuilt(args, { cwd, env });
  return {
    cwd,
    env,
    start,
    /** Has the program carry out a command in this process. */
    say: (...args: string[]) => runHere(args, { cwd, env }),
    async ask(...args: string[]) {
      const command = await start(...args);
      const { code } = await command.closed;
      return { code, stdout: command.stdout, stderr: command.stderr };
    },
  };
}

test("pause stops the work that is asked for, says so everywhere, and resume lets it go on at once", async () => {
  const { ask, say, start } = place();
  const paused = await ask("pause", "--reason", "the budget\nis used up");
  expect(paused).toMatchObject({ code: 0 });
  expect(paused.stdout.join()).toMatch(
    /^The installation on redis:\S+ is paused since \S+Z \(the budget is used up\): no model call/,
  );
  const worker = await start("worker");
  expect(await worker.waitForLine(/^ready: /)).toMatch(/; paused since \S+Z \(the budget is used up\)$/);
  const { stdout, stderr } = await ask("spawn", "counter", "--prompt", "How many TODO comments are there?");
  expect(stderr.join()).toMatch(/^All runs wait for node \S+main\.js resume: paused since /);
  expect((await say("list")).stdout.join()).toMatch(new RegExp(`${stdout[0]} +queued`));
  const again = await say("pause", "--reason", "another", "--json");
  const note = JSON.parse(again.stdout.join());
  expect(note).toMatchObject({ paused: true, reason: "the budget\nis used up" });
  expect(again.stderr).toEqual(["It was paused already: the first reason is kept."]);
  const resumed = await ask("resume", "--json");
  expect(JSON.parse(resumed.stdout.join())).toEqual({
    paused: false,
    was: { at: note.at, reason: note.reason },
  });
  const replies = await start("replies", "--follow", "--ack", "--json");
  expect(await replies.waitForLine(/"kind":"reply"/)).toContain('"status":"succeeded"');
  expect(await say("resume", "--json")).toMatchObject({ code: 0, stdout: ['{"paused":false,"was":null}'] });
});

/** A clock by which a client soon sees what its tasks wait for, and the number of times that it has. */
function checkedClock() {
  let planned = 0;
  const clock: Clock = {
    ...systemClock,
    timeout(ms, callback) {
      if (ms !== CHECK_MS) return systemClock.timeout(ms, callback);
      planned += 1;
      return systemClock.timeout(100, callback);
    },
  };
  return { clock, checks: () => planned - 1 };
}

/** Announces a worker that takes no runs. */
async function announceWorker(prefix: string): Promise<void> {
  const redis = openRedis(redisUrl(), "worker");
  const directory = createWorkerDirectory(redis, keysUnder(prefix));
  await directory.announce({ id: "w1", host: "h", version: "0.1.0", concurrency: 1, tools: [] });
  closeAtEnd(async () => {
    await directory.withdraw("w1");
    closeRedis(redis);
  });
}

test("run tells of a pause once, whether it was there before or comes while the run waits", async () => {
  const { cwd, env, say } = place();
  await announceWorker(String(env.SUBAGENT_PREFIX));
  await say("pause", "--reason", "night");
  const { clock, checks } = checkedClock();
  const running = startHere(["run", "How many TODO comments are there?"], { cwd, env, clock });
  const told = () => running.stderr.filter((line) => line.startsWith("All runs wait for"));
  await until(() => checks() >= 2);
  expect(told()).toEqual([expect.stringMatching(/\(night\)\.$/)]);
  await say("resume");
  const before = checks();
  await until(() => checks() >= before + 2);
  await say("pause", "--reason", "noon");
  await until(() => told().length > 1);
  expect(told()).toEqual([expect.stringMatching(/\(night\)\.$/), expect.stringMatching(/\(noon\)\.$/)]);
});

test("wrong input is one sentence and its exit code", async () => {
  const { env, say } = place();
  expect(await say("pause", "--reason", "")).toMatchObject({
    code: 2,
    stdout: [],
    stderr: ["subagent-queue: --reason cannot be used: write 1 to 500 characters."],
  });
  env.REDIS_URL = undefined;
  for (const verb of ["pause", "resume"]) {
    expect(await say(verb)).toMatchObject({
      code: 3,
      stdout: [],
      stderr: [
        `subagent-queue: REDIS_URL is not set: ${verb} acts on the workers of a Redis, e.g. redis://host:6379.`,
      ],
    });
  }
  env.REDIS_URL = "redis://127.0.0.1:1";
  expect(await say("pause")).toMatchObject({ code: 3, stdout: [] });
});
