import { expect, test } from "vitest";
import { closeRedis, openRedis, whenTried } from "../../../../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { freePort } from "../../../../helpers/redis-server.ts";

test("a first attempt that is refused is over at once, though no time passes", async () => {
  const redis = openRedis(`redis://127.0.0.1:${await freePort()}`, "producer");
  closeAtEnd(() => closeRedis(redis));
  const clock = handClock();
  await whenTried(redis, clock);
  expect([redis.status === "ready", clock.pending]).toEqual([false, 0]);
});
