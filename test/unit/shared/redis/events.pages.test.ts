import { expect, test, vi } from "vitest";
import { type AgentAddress, agentOf, keysUnder } from "../../../../src/shared/protocol/keys.ts";
import { ProgressEvent } from "../../../../src/shared/protocol/reply.ts";
import {
  closeRedis,
  openRedis,
  type RedisClient,
} from "../../../../src/shared/redis/connection/connection.ts";
import { eventPublisher, readEvents, type TimelineOffsets } from "../../../../src/shared/redis/events.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../../../helpers/redis.ts";

const parent = { tenant: "default", parentId: "planner-7" };
const ENDED = '{"type":"ended","turn":0,"status":"failed","stop_reason":"max_age"}';

function history() {
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const keys = keysUnder(uniquePrefix());
  const add = async (number: number, address: AgentAddress) => {
    await redis
      .pipeline()
      .xadd(keys.parent(parent).history, `${number}-0`, "u", address.uid)
      .rpush(keys.agent(address).timeline, `${number}-0 1 ${ENDED}`)
      .exec();
  };
  const page = (offsets?: TimelineOffsets) =>
    readEvents(redis, keys, parent, { after: "0", count: 5_000, ...(offsets && { offsets }) });
  return { redis, keys, add, page };
}

const agent = (n: number) => agentOf(parent, `sa-${`${n}`.padStart(24, "0")}`);

test("an agent whose record is gone is named in its events by its uid", async () => {
  const { add, page } = history();
  await add(1, agent(1));
  const [line] = (await page()).lines;
  expect(line?.events).toMatchObject([{ type: "ended", agent_id: agent(1).uid, run: 1 }]);
});

test("a timeline of another type hides only its own lines", async () => {
  const { redis, keys, add, page } = history();
  await add(1, agent(1));
  await add(2, agent(2));
  await redis.set(keys.agent(agent(1)).timeline, "no list");
  const { lines, last } = await page();
  expect([lines.map(({ uid }) => uid), last]).toEqual([[agent(2).uid], "2-0"]);
});

test("a reader remembers its place in a thousand timelines, those that it read last", async () => {
  const { add, page } = history();
  await Promise.all(Array.from({ length: 1_001 }, (_, n) => add(1_000_000, agent(n)).catch(() => {})));
  const offsets: TimelineOffsets = new Map(
    Array.from({ length: 1_000 }, (_, n) => [`timeline ${n}`, 1] as const),
  );
  await page(offsets);
  expect(offsets.size).toBe(1_000);
  expect(offsets.has("timeline 0")).toBe(false);
});

test("a live event is sent over an open connection alone, and what fails about it ends nothing", async () => {
  const publish = vi.fn(() => Promise.reject(new TypeError("gone")));
  const redis = { status: "reconnecting", publish };
  const tell = eventPublisher(redis as unknown as RedisClient, keysUnder(uniquePrefix()));
  const event = ProgressEvent.parse({ v: 1, agent_id: "a", name: "A", run: 1, ...JSON.parse(ENDED) });
  tell(parent, event);
  expect(publish).not.toHaveBeenCalled();
  redis.status = "ready";
  tell(parent, event);
  expect(publish).toHaveBeenCalledTimes(1);
  await new Promise(setImmediate);
});
