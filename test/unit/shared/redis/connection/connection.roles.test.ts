/** Guarantee: who asks a Redis about itself hears what it says, and what can be sent is known before an end is announced. */
import { expect, test } from "vitest";
import {
  canSend,
  closeRedis,
  openRedis,
  whenAccepted,
} from "../../../../../src/shared/redis/connection/connection.ts";
import { ServerConnection } from "../../../../../src/shared/redis/connection/server-connection.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { redisUrl } from "../../../../helpers/redis.ts";

async function opened(role: "asker" | "worker") {
  const redis = openRedis(redisUrl(), role);
  closeAtEnd(() => closeRedis(redis));
  await whenAccepted(redis);
  if (!(redis instanceof ServerConnection)) throw new TypeError("a cluster");
  return redis;
}

test("a replica's refusal of a write is the answer to whoever asks, and not a reason to connect again", async () => {
  const redis = await opened("asker");
  let closed = 0;
  redis.on("close", () => void closed++);
  const refused = redis.eval("return redis.error_reply('READONLY You cannot write')", 0);
  await expect(refused).rejects.toThrow("READONLY");
  expect(closed).toBe(0);
});

test("nothing is sent over a socket that has ended, though the connection still counts as ready", async () => {
  const redis = await opened("worker");
  expect(canSend(redis)).toBe(true);
  redis.stream.end();
  expect([redis.status, canSend(redis)]).toEqual(["ready", false]);
});
