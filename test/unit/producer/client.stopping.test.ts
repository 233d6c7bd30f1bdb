/** Guarantee: every stop of a client resolves when its connections are closed, not the first one alone. */
import { expect, test } from "vitest";
import { createClient } from "../../../src/producer/client.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";

test("a stop meanwhile ends with the one under way", async () => {
  const client = createClient({ redisUrl: redisUrl(), prefix: uniquePrefix() });
  await client.start();
  const ended: string[] = [];
  const first = client.stop().then(() => ended.push("first"));
  await client.stop();
  expect(ended).toEqual(["first"]);
  await first;
});
