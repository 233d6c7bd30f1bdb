import { expect, test } from "vitest";
import { createRedisCalls, openConnection } from "../../../src/producer/redis-call.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { redisUrl } from "../../helpers/redis.ts";

test.each(["AbortError", "MaxRetriesPerRequestError"])(
  "a change that Redis' client ends with %s may have happened, and is sent once more",
  async (name) => {
    const connection = openConnection(redisUrl(), "producer", systemClock, createLogger({ level: "silent" }));
    closeAtEnd(() => connection.close());
    const repeated: boolean[] = [];
    const lost = createRedisCalls(connection).call(({ write }) =>
      write({ what: "the spawn", key: { request_key: "k" } }, (again) => {
        repeated.push(again);
        return Promise.reject(Object.assign(new Error("Command aborted"), { name }));
      }),
    );
    await expect(lost).rejects.toMatchObject({ code: "outcome_unknown" });
    expect(repeated).toEqual([false, true]);
  },
);
