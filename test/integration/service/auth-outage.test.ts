/** Who may ask while Redis is away. */
import { createServer } from "node:http";
import express from "express";
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { createAuth } from "../../../src/service/api/auth.ts";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const FAILURES_PER_MINUTE = 60;
const BELIEVED_MS = 1_000;

/** A guard on a Redis of its own, whose connection is known, and the address of a server behind it. */
async function guarded() {
  const stage = await openStage({ redis: "own" });
  const client = await internalsOf(stage.client()).open();
  const clock = handClock();
  const bounds = { requestsPerMinute: 1_000, requestsAtOnce: 1_000 };
  const auth = createAuth({
    ...{ open: async () => client, openWithoutKeys: true, tenant: "default", clock },
    ...bounds,
  });
  const app = express();
  app.get("/", auth.require("read"), (_request, response) => void response.json({}));
  const url = await listenUntilEnd(createServer(app));
  return { stage, client, clock, status: async () => (await fetch(url)).status };
}

test("a request without a key is still told that it needs one, and one of too many that it comes too soon", async () => {
  const { stage, client, clock, status } = await guarded();
  await createApiKeys(stage.redis, stage.keys).create({ tenant: "acme", name: "first", scope: "read" });
  expect(await status()).toBe(401);
  await stage.server.stop();
  await until(() => client.redis.status !== "ready");
  clock.advance(2 * BELIEVED_MS);
  const statuses: number[] = [];
  for (let n = 0; n <= FAILURES_PER_MINUTE; n++) statuses.push(await status());
  expect(new Set(statuses.slice(0, FAILURES_PER_MINUTE))).toEqual(new Set([401]));
  expect(statuses.at(-1)).toBe(429);
});

test("a request whose count a silent Redis does not answer is refused, instead of waiting until its connection is given up", async () => {
  const { stage, status } = await guarded();
  // That no key was made is believed for a second: the next request asks Redis for its count alone.
  expect(await status()).toBe(200);
  stage.server.freeze();
  expect(await status()).toBe(503);
  stage.server.thaw();
});
