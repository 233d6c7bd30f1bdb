/** What the board shows of a queue in which another program has left its words. */
import { createServer } from "node:http";
import { expect, test } from "vitest";
import { createBullBoardRouter } from "../../../src/service/board/bull-board.ts";
import { createWakeQueue, openWakeQueueForReading } from "../../../src/shared/redis/wake-queue.ts";
import { ask } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { openStage } from "../../stage/stage.ts";

const SECRET = "canary";
const WAKE = { tenant: "default", parent_id: "p", uid: `sa-${"0".repeat(24)}`, agent_id: "waiter", wake: 1 };

/** A queue with one delayed wake, and the address of its board. */
async function boardOfOne() {
  const { redis, keys } = await openStage();
  const wakes = createWakeQueue(redis, keys);
  await wakes.add(WAKE, 60_000);
  const queue = await openWakeQueueForReading(redis, keys);
  closeAtEnd(async () => {
    await wakes.stop();
    await queue.close();
  });
  const [job] = await queue.getJobs(["delayed"]);
  const url = new URL("/api/queues", await listenUntilEnd(createServer(createBullBoardRouter(queue, ""))));
  return { redis, keys, url, id: job?.id ?? "" };
}

test("neither why a job is to fail later nor what keeps others like it away", async () => {
  const { redis, keys, url, id } = await boardOfOne();
  await redis.hset(keys.wakeJob(id), { deid: SECRET, defa: `The model said ${SECRET}` });
  for (const address of [`${url}?activeQueue=wakes&status=delayed`, `${url}/wakes/${id}`]) {
    const { status, body } = await ask(address, "GET");
    expect([status, JSON.stringify(body)]).toEqual([200, expect.stringContaining("waiter")]);
    expect(JSON.stringify(body)).not.toContain(SECRET);
  }
});

test("no word of an error of Redis", async () => {
  const { redis, keys, url } = await boardOfOne();
  await redis.del(keys.delayedWakes);
  await redis.set(keys.delayedWakes, SECRET);
  const { status, body } = await ask(url.href, "GET");
  expect([status, body]).toEqual([500, { error: { key: "ERRORS.INTERNAL_SERVER_ERROR" } }]);
});
