import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { createIntakeStream } from "../../../../src/shared/redis/intake-stream.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../../../helpers/redis.ts";

const GROUP = "workers";

test("of readers that have asked for nothing for an hour those without entries leave the group, and no entry is lost", async () => {
  const [redis, aged] = [openRedis(redisUrl(), "worker"), openRedis(redisUrl(), "worker")];
  closeAtEnd(() => [redis, aged].forEach(closeRedis));
  const keys = keysUnder(uniquePrefix());
  await redis.xgroup("CREATE", keys.intake, GROUP, "0", "MKSTREAM");
  await redis.xadd(keys.intake, "*", "prompt", "one");
  await redis.xreadgroup("GROUP", GROUP, "died", "COUNT", 1, "STREAMS", keys.intake, ">");
  for (const name of ["gone", "new"]) await redis.xgroup("CREATECONSUMER", keys.intake, GROUP, name);
  const names = async () => {
    const found = (await redis.xinfo("CONSUMERS", keys.intake, GROUP)) as string[][];
    return found.map(([, name = ""]) => name).sort();
  };
  /** As if all readers but the new one had been silent for more than an hour. */
  const ask = redis.xinfo.bind(redis);
  Object.assign(aged, {
    xinfo: async (...args: Parameters<typeof ask>) => {
      const found = (await ask(...args)) as (string | number)[][];
      return found.map((flat) =>
        flat.map((word, i) => (flat[i - 1] === "idle" && flat[1] !== "new" ? 3_600_001 : word)),
      );
    },
  });
  const logger = createLogger({ level: "silent" });
  await createIntakeStream(aged, aged, keys, { consumer: "own", logger }).claim();
  expect(await names()).toEqual(["died", "new"]);
  expect((await redis.xpending(keys.intake, GROUP))[0]).toBe(1);
});
