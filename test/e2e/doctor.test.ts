/** `doctor` on real Redis servers: as processes of the built command line, refusals as the same program in this process. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DoctorReport } from "../../src/cli/doctor/report.ts";
import { keysUnder } from "../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis } from "../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { spawnBuilt } from "../helpers/processes.ts";
import { runHere } from "../helpers/program.ts";
import { redisUrl, startPrivateRedis, uniquePrefix } from "../helpers/redis.ts";
import { freePort } from "../helpers/redis-server.ts";

const VARIABLE = /^(REDIS_URL|ANTHROPIC_|SUBAGENT_|NODE_ENV|NO_COLOR|FORCE_COLOR)/;
const CLEAN = Object.fromEntries(
  Object.keys(process.env)
    .filter((name) => VARIABLE.test(name))
    .map((name) => [name, undefined]),
);
const SECRET = "canary-5d1f07aa";

function place(url = redisUrl()) {
  const directory = mkdtempSync(join(tmpdir(), "doctor-"));
  closeAtEnd(() => rmSync(directory, { recursive: true, force: true }));
  const prefix = uniquePrefix();
  const env = { ...CLEAN, REDIS_URL: url, SUBAGENT_PREFIX: prefix };
  const start = (args: readonly string[], more: Record<string, string | undefined> = {}) =>
    spawnBuilt(args, { cwd: directory, env: { ...env, ...more } });
  return {
    prefix,
    start,
    /** Has the program carry out a command in this process. */
    say: (args: readonly string[], more: Record<string, string | undefined> = {}) =>
      runHere(args, { cwd: directory, env: { ...env, ...more } }),
    async ask(args: readonly string[], more: Record<string, string | undefined> = {}) {
      const command = await start(args, more);
      const { code } = await command.closed;
      return { code, stdout: command.stdout, stderr: command.stderr };
    },
  };
}

test("a healthy installation that has worked: all is well, exit code 0", async () => {
  const { start, ask, say } = place();
  const worker = await start(["worker"]);
  await worker.waitForLine(/^ready: /);
  await say(["run", `How many TODO comments are there? ${SECRET}`]);
  const { code, stdout, stderr } = await ask(["doctor"]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: [] });
  expect(stdout.at(-1)).toBe("✔ all is well");
  expect(stdout.join("\n")).toMatch(/✔ Workers {5}1 live on 1 host · 0 of 50 slots taken · 0 waiting/);
  expect(stdout.join("\n")).toMatch(/✔ Agents {6}0 live · 1 ended/);
  expect(stdout.join("\n")).not.toContain(SECRET);
});

test("the same as JSON has the form that is promised, and there is nothing to repair", async () => {
  const { start, ask } = place();
  const worker = await start(["worker"]);
  await worker.waitForLine(/^ready: /);
  const { code, stdout, stderr } = await ask(["doctor", "--json", "--fix"]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: [] });
  const report = DoctorReport.parse(JSON.parse(stdout.join("\n")));
  expect(report).toMatchObject({ status: "healthy", errors: 0, warnings: 0, findings: [], repaired: [] });
  expect(report.areas.map(({ area, severity }) => [area, severity])).toEqual(
    ["redis", "workers", "agents", "replies", "workspaces"].map((area) => [area, "ok"]),
  );
});

test("errors are exit code 1 until --fix has cured them; no prompt is ever printed", async () => {
  const { prefix, say } = place();
  const spawned = await say(["spawn", "Data Collector", "--prompt", SECRET]);
  expect(spawned.code).toBe(0);
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const keys = keysUnder(prefix);
  const parent = { tenant: "default", parentId: "cli" };
  const [uid = ""] = await redis.hkeys(keys.parent(parent).live);
  await redis.del(keys.agent({ ...parent, uid }).record);

  const sick = await say(["doctor"]);
  expect(sick.code).toBe(1);
  expect(sick.stdout.join("\n")).toContain(`cli/${uid}`);
  expect(sick.stdout.at(-1)).toBe("✖ 1 error, 2 warnings");
  const cured = await say(["doctor", "--fix"]);
  expect(cured.code).toBe(0);
  expect(cured.stdout.join("\n")).toMatch(/Repaired\n {2}1 slot freed: cli\/sa-/);
  expect(cured.stdout.at(-1)).toBe("⚠ 0 errors, 1 warning");
  const again = await say(["doctor", "--fix"]);
  expect(again.stdout).toContain("Nothing was repaired.");
  expect([...sick.stdout, ...cured.stdout].join("\n")).not.toContain(SECRET);
});

test("wrong settings of Redis are named with their fix; production takes them as errors", async () => {
  const server = await startPrivateRedis({
    arguments: ["--appendonly", "no", "--maxmemory-policy", "allkeys-lru"],
  });
  const { say } = place(server.url);
  const found = await say(["doctor"]);
  expect(found.code).toBe(0);
  expect(found.stdout.join("\n")).toMatch(/⚠ .*appendonly yes/);
  expect(found.stdout.join("\n")).toMatch(/⚠ .*maxmemory-policy noeviction/);
  const strict = await say(["doctor"], { NODE_ENV: "production" });
  expect(strict.code).toBe(1);
  expect(strict.stdout.at(-1)).toBe("✖ 2 errors, 1 warning");
});

test("--measure says beforehand what it spends and what the backend takes", async () => {
  const { say, start } = place();
  const model = await start(["offline-model", "--port", "0", "--latency-ms", "100", "--parallel", "1"]);
  const url = (await model.waitForLine(/^ready: /)).slice("ready: ANTHROPIC_BASE_URL=".length);
  const { code, stdout, stderr } = await say(["doctor", "--measure"], { ANTHROPIC_BASE_URL: url });
  expect(code).toBe(0);
  expect(stderr.join("\n")).toMatch(/^Measuring .*: 47 calls of at most 16 output tokens each\.$/);
  // Which number comes out is a question of how busy the machine is as well.
  expect(stdout.join("\n")).toMatch(
    /answers \d calls? at a time: SUBAGENT_CONCURRENCY above \d+ only queues/,
  );
});

test.each([
  ["no REDIS_URL", { REDIS_URL: undefined }, /^subagent-queue: REDIS_URL is not set: doctor examines /],
  ["an address that is none", { REDIS_URL: "localhost" }, /^subagent-queue: REDIS_URL/],
  ["a wrong prefix", { SUBAGENT_PREFIX: "a b" }, /^subagent-queue: SUBAGENT_PREFIX/],
])("%s is one sentence and exit code 3", async (_, more, sentence) => {
  const { code, stdout, stderr } = await place().say(["doctor", "--json"], more);
  expect({ code, stdout }).toEqual({ code: 3, stdout: [] });
  expect(stderr).toHaveLength(1);
  expect(stderr[0]).toMatch(sentence);
});

test("a Redis that is not there is one sentence and exit code 3, an unknown flag exit code 2", async () => {
  const { say } = place(`redis://:${SECRET}@127.0.0.1:${await freePort()}`);
  const away = await say(["doctor"]);
  expect({ code: away.code, stdout: away.stdout }).toEqual({ code: 3, stdout: [] });
  expect(away.stderr).toEqual([
    expect.stringMatching(/^subagent-queue: No Redis at .* \(connection refused\): /),
  ]);
  expect(away.stderr.join()).not.toContain(SECRET);
  expect((await say(["doctor", "--force"])).code).toBe(2);
});
