/** Guarantee: on a Redis that has no memory left an operator still sees what there is, can pause, and is told what to do. */
import { mkdtempSync, rmSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { keysUnder } from "../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis } from "../../src/shared/redis/connection/connection.ts";
import { createPause } from "../../src/shared/redis/pause.ts";
import { createProviderLimiter } from "../../src/shared/redis/provider-limiter.ts";
import { createWorkerDirectory } from "../../src/shared/redis/workers.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { runHere } from "../helpers/program.ts";
import { startPrivateRedis, uniquePrefix } from "../helpers/redis.ts";

/** A Redis without memory, with a worker that is announced and an agent of the parent `p` that waits for it. */
async function fullRedis() {
  const cwd = mkdtempSync(join(tmpdir(), "full-"));
  closeAtEnd(() => rmSync(cwd, { recursive: true, force: true }));
  const { url } = await startPrivateRedis();
  const redis = openRedis(url, "worker");
  closeAtEnd(() => closeRedis(redis));
  const prefix = uniquePrefix();
  const env = {
    REDIS_URL: url,
    SUBAGENT_PREFIX: prefix,
    SUBAGENT_PARENT: "p",
    SUBAGENT_LOG_LEVEL: "silent",
    ANTHROPIC_API_KEY: undefined,
    ANTHROPIC_BASE_URL: undefined,
  };
  const say = (...args: string[]) => runHere(args, { cwd, env });
  const keys = keysUnder(prefix);
  const worker = { id: "w", host: hostname(), version: "1", concurrency: 1, tools: [], now: Date.now() };
  await createWorkerDirectory(redis, keys).announce(worker);
  expect(await say("spawn", "counter", "--prompt", "wait")).toMatchObject({ code: 0 });
  await redis.config("SET", "maxmemory", "1");
  return { redis, keys, say };
}

test("the doctor of a full Redis says that its memory is used up, and sees workers and agents as ever", async () => {
  const { say } = await fullRedis();
  const { code, stdout, stderr } = await say("doctor", "--json");
  expect(code, stderr.join("\n")).toBe(1);
  const { findings, areas } = JSON.parse(stdout.join());
  expect(findings).toContainEqual(
    expect.objectContaining({
      check: "redis_trouble",
      severity: "error",
      what: expect.stringMatching(/^Redis has no memory left \(maxmemory 1 bytes\)/),
    }),
  );
  expect(findings.map(({ check }: { check: string }) => check)).not.toContain("clock_skew");
  const summary = (area: string) => areas.find((each: { area: string }) => each.area === area).summary;
  expect(summary("workers")).toMatch(/^1 live/);
  expect(summary("agents")).toMatch(/^1 live/);
});

test.each(["ps", "list", "show agent", "usage", "logs", "replies"])(
  "%s reads a full Redis",
  async (command) => {
    const { say } = await fullRedis();
    const [name = ""] = /sa-\S+|counter\S*/.exec((await say("list")).stdout.join("\n")) ?? [];
    const { code, stderr } = await say(...command.replace("agent", name).split(" "));
    expect(code, stderr.join("\n")).toBe(0);
  },
);

test("a full Redis can be paused, also a second time, and resumed", async () => {
  const { redis, keys, say } = await fullRedis();
  const paused = await say("pause", "--reason", "no memory", "--json");
  expect(paused.code, paused.stderr.join("\n")).toBe(0);
  expect(JSON.parse(paused.stdout.join())).toMatchObject({ paused: true, reason: "no memory" });
  const again = await say("pause", "--reason", "another", "--json");
  expect(JSON.parse(again.stdout.join())).toMatchObject({ paused: true, reason: "no memory" });
  expect(await createProviderLimiter(redis, keys).acquire("m", "run")).toEqual({ status: "paused" });
  // With memory again, the same call finishes what was only half done.
  await redis.config("SET", "maxmemory", "0");
  await say("pause");
  expect(await redis.hget(`${keys.bullPrefix}:${keys.wakeQueue}:meta`, "paused")).toBe("1");
  await redis.config("SET", "maxmemory", "1");
  expect((await say("resume", "--json")).code).toBe(0);
  expect(await createPause(redis, keys).state()).toBeUndefined();
  expect(await redis.hget(`${keys.bullPrefix}:${keys.wakeQueue}:meta`, "paused")).toBeNull();
});

test.each([
  { args: ["keys", "create", "billing"] },
  { args: ["spawn", "counter", "--prompt", "more"] },
  { args: ["webhook", "set", "https://example.com/"] },
])("$args is refused for want of memory, with what to do about it", async ({ args }) => {
  const { say } = await fullRedis();
  const { code, stderr } = await say(...args);
  expect(code).toBe(3);
  expect(stderr.at(-1)).toMatch(
    /has no memory left \(OOM .*\): .*raise its maxmemory, or ack replies that no parent reads/,
  );
});

test("a webhook is removed from a full Redis", async () => {
  const { redis, keys, say } = await fullRedis();
  await redis.config("SET", "maxmemory", "0");
  expect((await say("webhook", "set", "https://example.com/")).code).toBe(0);
  await redis.config("SET", "maxmemory", "1");
  const { code, stderr } = await say("webhook", "remove");
  expect(code, stderr.join("\n")).toBe(0);
  expect(await redis.exists(keys.webhooks, keys.webhooksDue, keys.webhookHolders)).toBe(0);
});

test("an API key is revoked on a full Redis", async () => {
  const { redis, say } = await fullRedis();
  await redis.config("SET", "maxmemory", "0");
  const { key_id } = JSON.parse((await say("keys", "create", "leaked", "--json")).stdout.join());
  await redis.config("SET", "maxmemory", "1");
  const { code, stderr } = await say("keys", "revoke", key_id);
  expect(code, stderr.join("\n")).toBe(0);
  const listed = JSON.parse((await say("keys", "list", "--json")).stdout.join());
  expect(JSON.stringify(listed)).toMatch(/"revoked_at":"20/);
});
