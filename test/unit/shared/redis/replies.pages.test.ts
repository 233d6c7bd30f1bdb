/** Pages of a channel: few commands for small entries, and large entries a few at a time. */
import { expect, test, vi } from "vitest";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import { TIMING } from "../../../../src/shared/protocol/limits.ts";
import { OLDEST } from "../../../../src/shared/protocol/reply.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { createReplyStream } from "../../../../src/shared/redis/replies.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../../../helpers/redis.ts";

const parent = { tenant: "default", parentId: "planner-7" };

/** A channel of messages with these numbers of characters. */
async function channelOf(lengths: readonly number[]) {
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const keys = keysUnder(uniquePrefix());
  for (const [n, length] of lengths.entries()) {
    const names = [
      "parent_id",
      "planner-7",
      "agent_id",
      "writer",
      "name",
      "writer",
      "agent_status",
      "running",
    ];
    const fields = [...names, "v", "1", "uid", "sa-1", "reply_id", `sa-1.1.${n}/call`, "run", "1", "at", "1"];
    await redis.xadd(
      keys.parent(parent).replies,
      `${n + 1}-0`,
      ...fields,
      "kind",
      "message",
      "body",
      "x".repeat(length),
    );
  }
  const asked = vi.spyOn(redis, "xrange");
  return { stream: createReplyStream(redis, keys, TIMING), asked };
}

test("a page has as many small entries as it may have, from few commands, and says whether others may follow", async () => {
  const { stream, asked } = await channelOf(Array.from({ length: 150 }, () => 100));
  const first = await stream.page(parent, OLDEST, 100);
  expect(first.items.map(({ id }) => id)).toEqual(Array.from({ length: 100 }, (_, n) => `${n + 1}-0`));
  expect(first.isLast).toBe(false);
  expect(asked.mock.calls.length).toBe(8);
  const second = await stream.page(parent, "100-0", 100);
  expect(second.items).toHaveLength(50);
  expect(second.isLast).toBe(true);
  expect(await stream.page(parent, "150-0", 100)).toEqual({ items: [], chars: 0, isLast: true });
});

test("a short channel is read with one command", async () => {
  const { stream, asked } = await channelOf([100, 100, 100]);
  expect(await stream.page(parent, OLDEST, 100)).toMatchObject({ isLast: true });
  expect(asked).toHaveBeenCalledTimes(1);
});

test("a page of large entries ends early, and the next ones have the others, each once", async () => {
  const { stream, asked } = await channelOf(Array.from({ length: 10 }, () => 400_000));
  const seen: string[] = [];
  for (let [after, isLast] = [OLDEST, false]; !isLast; ) {
    const page = await stream.page(parent, after, 100);
    // Four with the first command, which are enough.
    expect(page.items.length).toBeLessThanOrEqual(4);
    seen.push(...page.items.map(({ id }) => id));
    [after, isLast] = [seen.at(-1) ?? "", page.isLast];
  }
  expect(seen).toEqual(Array.from({ length: 10 }, (_, n) => `${n + 1}-0`));
  for (const [, , , , count] of asked.mock.calls) expect(count).toBeLessThanOrEqual(4);
});

test("large entries behind small ones end the page with the command that finds them", async () => {
  const { stream } = await channelOf([100, 100, 100, 100, ...Array.from({ length: 12 }, () => 200_000)]);
  const page = await stream.page(parent, OLDEST, 100);
  expect(page.items).toHaveLength(12);
  expect(page.isLast).toBe(false);
});

test("however many small entries came before, one command brings at most sixteen", async () => {
  const { stream, asked } = await channelOf([
    ...Array.from({ length: 60 }, () => 100),
    ...Array.from({ length: 40 }, () => 200_000),
  ]);
  const page = await stream.page(parent, OLDEST, 100);
  expect(page.items).toHaveLength(76);
  for (const [, , , , count] of asked.mock.calls) expect(count).toBeLessThanOrEqual(16);
});
