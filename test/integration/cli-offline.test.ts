/** Guarantee: on the command line the offline model answers where nothing else is there or it was asked for, never in place of a real one. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { closeRedis, openRedis } from "../../src/shared/redis/connection/connection.ts";
import { openInstallation } from "../../src/shared/redis/installation.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { runHere, startHere } from "../helpers/program.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";
import { until } from "../helpers/until.ts";

const VARIABLE = /^(REDIS_URL|ANTHROPIC_|SUBAGENT_|NODE_ENV|NO_COLOR|FORCE_COLOR)/;
const CLEAN = Object.fromEntries(
  Object.keys(process.env)
    .filter((name) => VARIABLE.test(name))
    .map((name) => [name, undefined]),
);
const PRODUCTION = { NODE_ENV: "production" };
const ASKED_FOR = { SUBAGENT_MODEL: "offline-1" };

/** Commands on an installation of their own, without a key. */
function place() {
  const cwd = mkdtempSync(join(tmpdir(), "offline-"));
  closeAtEnd(() => rmSync(cwd, { recursive: true, force: true }));
  const prefix = uniquePrefix();
  const env = { ...CLEAN, REDIS_URL: redisUrl(), SUBAGENT_PREFIX: prefix, SUBAGENT_LOG_LEVEL: "warn" };
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const { keys, intakeQueue } = openInstallation(redis, { prefix });
  const say = (args: readonly string[], more = {}) => runHere(args, { cwd, env: { ...env, ...more } });
  const stay = (args: readonly string[], more = {}) => startHere(args, { cwd, env: { ...env, ...more } });
  const worker = async (more = {}, ...flags: string[]) => {
    const joined = stay(["worker", ...flags], more);
    await joined.waitForLine(/^ready: /);
    return joined;
  };
  return {
    say,
    stay,
    worker,
    redis,
    keys,
    /** Hands a task to the intake that comes due after so many ms; resolves when that is known there. */
    async later(delayMs: number) {
      await intakeQueue.add(`job-${delayMs}`, { prompt: "hello", parent_id: "planner" }, delayMs);
      await intakeQueue.stop();
    },
    /** A worker with a provider, which does not know what that is. */
    async realWorker() {
      const provider = stay(["offline-model", "--port", "0"]);
      const ready = await provider.waitForLine(/^ready: /);
      return worker({ ANTHROPIC_BASE_URL: ready.slice("ready: ANTHROPIC_BASE_URL=".length) });
    },
  };
}

test.each([{}, { SUBAGENT_MODEL: "claude-sonnet-5-5" }])(
  "a worker without a key does not join beside one that has a provider, with %j",
  async (variables) => {
    const { say, realWorker } = place();
    await realWorker();
    const refused = await say(["worker"], variables);
    expect({ code: refused.code, stdout: refused.stdout }).toEqual({ code: 3, stdout: [] });
    expect(refused.stderr.at(-1)).toMatch(
      /^subagent-queue: The offline model would answer by rule beside 1 worker on redis:\S+: set ANTHROPIC_API_KEY, .*SUBAGENT_MODEL=offline-1/,
    );
  },
);

test("a worker whose offline model was asked for joins beside real ones, and in production", async () => {
  const { worker, realWorker } = place();
  await realWorker();
  await worker({ ...PRODUCTION, ...ASKED_FOR });
  await worker(PRODUCTION, "--allow-offline");
});

test("workers without a key join beside each other, whatever model they are to answer as", async () => {
  const { worker } = place();
  await worker({ SUBAGENT_MODEL: "claude-sonnet-5-5" });
  await worker({ SUBAGENT_MODEL: "claude-sonnet-5-5" });
  await worker();
});

test("in production a worker without a key is refused also alone, before it asks for Redis", async () => {
  const { say } = place();
  for (const [args, more] of [
    [["worker"], PRODUCTION],
    [["worker", "--strict"], {}],
  ] as const) {
    const refused = await say(args, { ...more, REDIS_URL: "redis://127.0.0.1:1" });
    expect(refused.code).toBe(3);
    expect(refused.stderr).toEqual([
      "subagent-queue: In production the offline model does not answer by default, for it answers by rule: set ANTHROPIC_API_KEY; with SUBAGENT_MODEL=offline-1 it answers all the same.",
    ]);
  }
});

test("in production run and start bring no worker without a key to a Redis that others use", async () => {
  const { say } = place();
  for (const args of [
    ["run", "hello"],
    ["start", "--once"],
  ]) {
    const refused = await say(args, PRODUCTION);
    expect(refused.code, args[0]).toBe(3);
    expect(refused.stderr.at(-1)).toMatch(/^subagent-queue: In production the offline model does not answer/);
  }
});

test("run and start without a key leave what others have waiting for another model, and say what that is", async () => {
  const { say, redis, keys } = place();
  await say(["spawn", "a", "--prompt", "hello", "--parent", "planner"], {
    SUBAGENT_MODEL: "claude-sonnet-5-5",
  });
  for (const args of [
    ["run", "hello"],
    ["start", "--once"],
  ]) {
    const refused = await say(args);
    expect({ code: refused.code, stdout: refused.stdout }, args[0]).toEqual({ code: 3, stdout: [] });
    expect(refused.stderr.at(-1)).toMatch(
      /^subagent-queue: The offline model would answer by rule what waits on redis:\S+, 1 run for another model: set ANTHROPIC_API_KEY, /,
    );
  }
  const { stdout } = await say(["list", "--parent", "planner"]);
  expect(stdout.join("\n")).toMatch(/queued/);
  await redis.xadd(keys.intake, "*", "prompt", "hello");
  const both = await say(["run", "hello"]);
  expect(both.stderr.at(-1)).toContain("1 run for another model and 1 request to the intake");
  const asked = await say(["run", "hello"], ASKED_FOR);
  expect(asked.code, asked.stderr.join("\n")).toBe(0);
});

test("what was spawned for the offline model, or is destroyed, keeps no run without a key from starting", async () => {
  const { say } = place();
  await say(["spawn", "a", "--prompt", "hello"]);
  await say(["spawn", "b", "--prompt", "hello"], { SUBAGENT_MODEL: "claude-sonnet-5-5" });
  expect((await say(["run", "hello"])).code).toBe(3);
  await say(["destroy", "b"]);
  expect((await say(["run", "hello"])).code).toBe(0);
});

test("of the jobs of the intake only those count whose time has come", async () => {
  const { say, later } = place();
  await later(600_000);
  expect((await say(["run", "hello"])).code).toBe(0);
  await later(1);
  const refused = await say(["run", "hello"]);
  expect(refused.code).toBe(3);
  expect(refused.stderr.at(-1)).toContain(", 1 request to the intake:");
});

test("what an earlier run has left behind keeps no further one from starting", async () => {
  const { say, stay } = place();
  const first = stay(["run", "one", "two"]);
  await first.waitForLine(/one: /);
  void first.kill("SIGINT");
  await first.kill("SIGINT");
  expect((await say(["run", "hello"])).code).toBe(0);
});

test("an API that was there before the first worker asks for the model of the one that joins; until then it names what is missing", async () => {
  const { stay, worker, realWorker } = place();
  const api = stay(["api", "--port", "0"]);
  const [, url] = /ready: api (\S+)/.exec(await api.waitForLine(/^ready: /)) ?? [];
  const task = (wait: number) =>
    fetch(`${url}/v1/parents/planner/tasks?wait=${wait}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ prompt: "hello" }),
    });
  const early = await task(0);
  expect(early.status).toBe(400);
  expect(await early.text()).toMatch(/name a model.*SUBAGENT_MODEL.*start a worker/);
  await worker();
  await until(async () => (await task(0)).ok, { what: "the API to ask for the offline model" });
  const asked = async () => {
    const text = await (await fetch(`${url}/v1/parents/planner/agents`)).text();
    return text.includes("claude-sonnet-5-5");
  };
  await realWorker();
  await until(async () => (await task(0)).ok && (await asked()), {
    what: "the API to ask for the real model",
  });
});

test("without a worker a schedule is refused, for it would keep offline-1; spawn says that its agent has it", async () => {
  const { say, worker } = place();
  const schedule = ["schedule", "morning", "--every", "1h", "--prompt", "hello"];
  const refused = await say(schedule);
  expect(refused.code).toBe(2);
  expect(refused.stderr.at(-1)).toMatch(/name a model.*SUBAGENT_MODEL.*start a worker/);
  const spawned = await say(["spawn", "a", "--prompt", "hello"]);
  expect(spawned.code).toBe(0);
  expect(spawned.stderr.join("\n")).toContain("Its model is offline-1, which answers by rule: neither");
  expect((await say(["spawn", "b"], ASKED_FOR)).stderr.join("\n")).not.toContain("neither");
  await worker();
  expect((await say(schedule)).code).toBe(0);
});
