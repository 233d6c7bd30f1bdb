import { expect, test } from "vitest";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { countWaiting } from "../../../../src/shared/redis/intake-stream.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../../../helpers/redis.ts";

const GROUP = "workers";

test("entries wait until they are taken, and again in the hands of a reader that died; those set aside wait no more", async () => {
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const keys = keysUnder(uniquePrefix());
  const { intake } = keys;
  expect(await countWaiting(redis, keys)).toBe(0);
  const [setAside = ""] = await Promise.all(
    ["one", "two", "three"].map((prompt) => redis.xadd(intake, "*", "prompt", prompt)),
  );
  expect(await countWaiting(redis, keys)).toBe(3);
  await redis.xgroup("CREATE", intake, GROUP, "0");
  await redis.xreadgroup("GROUP", GROUP, "died", "COUNT", 2, "STREAMS", intake, ">");
  expect(await countWaiting(redis, keys)).toBe(3);
  await redis.xack(intake, GROUP, setAside ?? "");
  expect(await redis.xlen(intake)).toBe(3);
  expect(await countWaiting(redis, keys)).toBe(2);
  await Promise.all(["four", "five"].map((prompt) => redis.xadd(intake, "*", "prompt", prompt)));
  expect(await countWaiting(redis, keys)).toBe(4);
});
