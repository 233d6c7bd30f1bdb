/** What a client that has started may rely on. */
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { luaSource } from "../../../src/shared/redis/scripts.ts";
import { refusal, testClient, testParent } from "../../helpers/parents.ts";
import { redisUrl, startPrivateRedis } from "../../helpers/redis.ts";
import { openRedisLine } from "../../helpers/redis-line.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("in production mode it does not start on a Redis that may lose work", async () => {
  const server = await startPrivateRedis({ arguments: ["--maxmemory-policy", "allkeys-lru"] });
  const client = testClient({ redisUrl: server.url, strict: true });
  await expect(client.start()).rejects.toMatchObject(refusal("invalid_config"));
});

test("in production mode a Redis that has come back is looked at again: it may have come back without its persistence", async () => {
  const stage = await openStage({ redis: "own", redisArguments: ["--appendonly", "yes"] });
  const parent = testParent(stage.client({ strict: true }));
  await parent.spawn({ name: "kept" });
  await stage.observer.config("SET", "appendonly", "no", "save", "");
  await stage.observer.client("KILL", "TYPE", "normal");
  const refused = await until(async () => {
    const error: unknown = await parent.spawn({ name: "lost" }).catch((problem: unknown) => problem);
    return error instanceof Error && "code" in error && error.code !== "redis_unavailable" && error;
  });
  expect(refused).toMatchObject(refusal("invalid_config"));
});

test("it does not start while it can send and not hear, or hear and not send", async () => {
  let connections = 0;
  const line = await openRedisLine(Number(new URL(redisUrl()).port), (client, upstream) => {
    connections += 1;
    if (connections > 1) return void client.destroy();
    client.pipe(upstream);
    upstream.pipe(client);
  });
  await expect(testClient({ redisUrl: line }).start()).rejects.toMatchObject(refusal("redis_unavailable"));
});

test("Redis has the scripts of a spawn as loaded ones, which it evicts for no others, before the first spawn", async () => {
  const stage = await openStage({ redis: "own" });
  await stage.client().start();
  const digests = (["deadline-hint", "spawn"] as const).map((verb) =>
    createHash("sha1").update(luaSource(verb)).digest("hex"),
  );
  await until(async () => String(await stage.observer.script("EXISTS", ...digests)) === "1,1");
});
