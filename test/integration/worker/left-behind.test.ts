/**
 * Guarantee: what a task leaves in Redis after its ack is bounded, each task's part and all that a parent's tasks have in common.
 * Counted over every key, not estimated.
 */
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { z } from "zod";
import { createClient } from "../../../src/producer/client.ts";
import { createParent } from "../../../src/producer/parent.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { startPrivateRedis } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const TURNS = 3;
const SUMMARY = "The quick brown fox jumps over the lazy dog. ".repeat(5);
/** From so many tasks on, what is kept of the newest ones only (jobs of wakes, timelines) grows no more. */
const WARM_UP = 150;
/** So many that the size of what all have in common (the history keeps room for numbers that left it) hardly counts. */
const TASKS = 300;
/** After the ack of a task whose request key its caller did not name, with {@link SUMMARY}. */
const MOST_BYTES = 1_024;
/** The key itself: what a caller may use it again for. */
const MOST_BYTES_OF_REQUEST_KEY = 320;

const lookup = defineTool({
  name: "lookup",
  description: "Looks something up.",
  input: z.object({ n: z.int() }),
  run: async () => "What the tool has found. ".repeat(20),
});

async function openScene() {
  const { url: redisUrl } = await startPrivateRedis();
  const asks = Array.from({ length: TURNS - 1 }, (_, n) => ({
    content: [{ type: "tool_use" as const, name: "lookup", input: { n } }],
  }));
  // Sweepers forget an ended agent at their next look. A run whose lease ends on a busy machine would leave more.
  const timing = { ...TIMING, checkMs: 3_000, leaseMs: 3_000, renewMs: 500, leaseMarginMs: 500 };
  const scenario = { turns: [...asks, { content: [{ type: "text" as const, text: SUMMARY }] }] };
  const installation = await openStage({ redis: { url: redisUrl }, timing, scenario });
  await installation.startWorker({ tools: [lookup] });
  const client = createClient({ redisUrl, prefix: installation.prefix, model: "offline-1", timing });
  closeAtEnd(() => client.stop());
  await client.start();
  const parent = createParent({
    client,
    parentId: "planner",
    system: "Use the tools. ".repeat(20),
    tools: ["lookup"],
  });
  const redis = new Redis(redisUrl);
  closeAtEnd(async () => void (await redis.quit()));
  const { keys } = installation;
  const { replies } = keys.parent({ tenant: "default", parentId: "planner" });
  const isQuiet = async () => (await redis.xlen(replies)) === 0 && (await redis.zcard(keys.deadlines)) === 0;
  return {
    redis,
    parent,
    async run(tasks: number, keyOf: (n: number) => string | undefined) {
      for (let n = 0; n < tasks; n += 10) {
        const some = Array.from({ length: 10 }, (_, i) =>
          parent.task({ prompt: "go", request_key: keyOf(n + i) }),
        );
        for (const { status } of await Promise.all(some)) expect(status).toBe("succeeded");
      }
      await until(isQuiet, { what: "every reply acked and every deadline forgotten" });
    },
    async bytes() {
      let all = 0;
      for (const key of await redis.keys("*")) all += (await redis.memory("USAGE", key, "SAMPLES", 0)) ?? 0;
      return all;
    },
  };
}

test("a task leaves at most a kilobyte after its ack, and its request key where the caller named it", async () => {
  const { run, bytes, redis, parent } = await openScene();
  await run(WARM_UP, () => undefined);
  const before = await bytes();
  await run(TASKS, () => undefined);
  const unnamed = await bytes();
  await run(TASKS, (n) => `wish-${n}`);
  const named = await bytes();
  process.stdout.write(
    `left behind: ${(unnamed - before) / TASKS} and ${(named - unnamed) / TASKS} bytes a task\n`,
  );
  expect((unnamed - before) / TASKS).toBeLessThanOrEqual(MOST_BYTES);
  expect((named - unnamed) / TASKS).toBeLessThanOrEqual(MOST_BYTES + MOST_BYTES_OF_REQUEST_KEY);
  expect(await redis.keys("*:request:*")).toHaveLength(TASKS);
  const again = parent.task({ prompt: "go", request_key: "wish-0" });
  expect(await again.started).toMatchObject({ known: true });
  expect(await again).toMatchObject({ summary: SUMMARY.trim(), turns: TURNS, message_ids: ["wish-0"] });
});
