import { expect, test, vi } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import { TIMING } from "../../../../src/shared/protocol/limits.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { createReplyStream } from "../../../../src/shared/redis/replies.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../../../helpers/redis.ts";

const parent = { tenant: "default", parentId: "planner-7" };

test("who reads the entries of one agent is warned of that agent's unreadable ones alone", async () => {
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const keys = keysUnder(uniquePrefix());
  for (const uid of ["sa-1", "sa-2"])
    await redis.xadd(keys.parent(parent).replies, "*", "v", "1", "uid", uid, "reply_id", `${uid}.1`);
  const warn = vi.fn();
  const logger = Object.assign(createLogger({ level: "silent" }), { warn });
  const stream = createReplyStream(redis, keys, TIMING, logger);
  const seen = async (uid?: string) => {
    warn.mockClear();
    await stream.page(parent, "0", 10, uid);
    return warn.mock.calls.map(([fields]) => fields);
  };
  const channel = keys.parent(parent).replies;
  expect(await seen("sa-3")).toEqual([]);
  expect(await seen("sa-1")).toEqual([{ channel, entries: 1 }]);
  expect(await seen()).toEqual([{ channel, entries: 1 }]);
  expect(await seen()).toEqual([]);
});
