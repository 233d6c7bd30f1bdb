import { expect, test } from "vitest";
import { createRedisCalls, openConnection } from "../../../src/producer/redis-call.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { redisUrl } from "../../helpers/redis.ts";

test("a call that Redis refuses because of its disk says that nothing was done, and to make room there", async () => {
  const connection = openConnection(redisUrl(), "producer", systemClock, createLogger({ level: "silent" }));
  closeAtEnd(() => connection.close());
  const refusing =
    "return redis.error_reply('MISCONF Errors writing to the AOF file: No space left on device')";
  const refused = createRedisCalls(connection).call(({ write }) =>
    write({ what: "the spawn", key: { request_key: "k" } }, () => connection.redis.eval(refusing, 0)),
  );
  await expect(refused).rejects.toMatchObject({
    code: "redis_unavailable",
    message: expect.stringMatching(
      /^Redis refuses writes \(MISCONF .*No space left on device.*\): nothing was done; make room on its disk, /,
    ),
  });
});
