/** Guarantee: on a read-only replica no command hangs: what would change something is refused at once, what waits can be stopped. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openRedis } from "../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { type CommandHere, type Said, startHere } from "../helpers/program.ts";
import { startPrivateRedis } from "../helpers/redis.ts";
import { until } from "../helpers/until.ts";

/** A command that has not ended by then never will. */
const HANGS_MS = 20_000;

/** A replica whose primary is away, and commands on it. */
async function openReplica() {
  const cwd = mkdtempSync(join(tmpdir(), "replica-"));
  closeAtEnd(() => rmSync(cwd, { recursive: true, force: true }));
  const server = await startPrivateRedis();
  const redis = openRedis(server.url, "worker");
  closeAtEnd(() => redis.disconnect());
  await redis.call("REPLICAOF", "127.0.0.1", "1");
  const env = {
    REDIS_URL: server.url,
    ANTHROPIC_API_KEY: undefined,
    ANTHROPIC_BASE_URL: undefined,
    SUBAGENT_LOG_LEVEL: "silent",
  };
  return {
    redis,
    start: (args: readonly string[]) => startHere(args, { cwd, env }),
    /** What a command has said at its end; one that hangs is let go on, so that it ends, and answers undefined. */
    async endOf({ closed }: CommandHere): Promise<Said | undefined> {
      let said: Said | undefined;
      void closed.then((all) => (said = all));
      await until(() => said, { timeoutMs: HANGS_MS }).catch(() => redis.call("REPLICAOF", "NO", "ONE"));
      return said;
    },
  };
}

test.each([{ args: ["pause"] }, { args: ["keys", "create", "billing"] }])(
  "$args is refused with the words of the replica",
  async ({ args }) => {
    const { start } = await openReplica();
    const { code, stderr } = await start(args).closed;
    expect(code).toBe(3);
    expect(stderr.at(-1)).toMatch(/^subagent-queue: Redis at \S+ cannot be used \(READONLY /);
  },
);

test("spawn is refused with what to do about a replica, which is no Redis that cannot be reached", async () => {
  const { start } = await openReplica();
  const { code, stderr } = await start(["spawn", "Data Collector"]).closed;
  expect(code).toBe(3);
  expect(stderr.at(-1)).toMatch(/^subagent-queue: Redis is a read-only replica: nothing was done; write the/);
});

test.each([
  { args: ["run", "hello"], signal: "SIGINT" as const },
  { args: ["start", "--once"], signal: "SIGTERM" as const },
])("$args waits for a Redis that takes writes, and ends at the first $signal", async ({ args, signal }) => {
  const { redis, start, endOf } = await openReplica();
  const command = start(args);
  await until(async () => String(await redis.call("CLIENT", "LIST")).includes("cmd=config"));
  void command.kill(signal);
  expect((await endOf(command))?.code).toBe(130);
});
