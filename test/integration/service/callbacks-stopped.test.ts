/** A callback that a stopping process cuts off is due at once: no other process waits for it as after a failure of its server. */
import { createServer } from "node:http";
import { expect, test } from "vitest";
import { createCallbackSender } from "../../../src/service/agent-protocol/callback.ts";
import { newThreadId, openThread } from "../../../src/service/agent-protocol/thread.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { redisNowMs } from "../../../src/shared/redis/redis-time.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { openStage } from "../../stage/stage.ts";

test("it is asked for again by the next process, and nobody is warned", async () => {
  const stage = await openStage();
  const client = stage.client();
  const asked = latch();
  const url = await listenUntilEnd(createServer(() => asked.open()));
  const thread = openThread(client, "default", "planner-7", newThreadId());
  await thread.begin({ assistantId: "researcher", text: "go", callbackThreadId: "main" });
  await stage.scriptedWorker().run("researcher");
  const warnings: string[] = [];
  const logger = createLogger({ level: "warn", destination: { write: (line) => void warnings.push(line) } });
  const sender = createCallbackSender({ client, url, logger });
  closeAtEnd(() => sender.stop());
  sender.start();
  await asked.opened;
  await sender.stop();
  const [, dueMs] = await stage.redis.zrange(stage.keys.callbacks, 0, -1, "WITHSCORES");
  expect(Number(dueMs)).toBeGreaterThan(0);
  expect(Number(dueMs)).toBeLessThanOrEqual(await redisNowMs(stage.redis));
  expect(warnings).toEqual([]);
});
