/** A long-running command without a model learns that of the first worker soon, and asks less often from then on. */
import { expect, test } from "vitest";
import { lookupModel } from "../../../../src/cli/local/client.ts";
import { createDisposables } from "../../../../src/cli/local/disposables.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { loadConfig } from "../../../../src/shared/config.ts";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { createWorkerDirectory } from "../../../../src/shared/redis/workers.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../../../helpers/redis.ts";
import { until } from "../../../helpers/until.ts";

test("looks for the first worker ten times a second, and for others every two seconds", async () => {
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const prefix = uniquePrefix();
  const disposables = createDisposables();
  closeAtEnd(() => disposables.close());
  const pauses: number[] = [];
  const sleep = (ms: number, signal?: AbortSignal) => {
    pauses.push(ms);
    return systemClock.sleep(ms, signal);
  };
  const clock = { ...systemClock, sleep };
  const model = lookupModel({ config: { ...loadConfig({}), prefix }, clock }, redisUrl(), [], disposables);
  await until(() => pauses.length > 1);
  expect(model()).toBeUndefined();
  expect(new Set(pauses)).toEqual(new Set([100]));
  const workers = createWorkerDirectory(redis, keysUnder(prefix));
  await workers.announce({
    id: "w",
    host: "h",
    version: "0.1.0",
    tools: [],
    concurrency: 1,
    model: "theirs",
  });
  await until(() => pauses.at(-1) === 2_000);
  expect(model()).toBe("theirs");
});
