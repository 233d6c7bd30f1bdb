import { expect, test } from "vitest";
import { openClientResources } from "../../../src/producer/client-resources.ts";
import type { Clock } from "../../../src/shared/clock.ts";
import { PAUSE_KNOWN_MS } from "../../../src/shared/redis/pause.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { latch } from "../../helpers/latch.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";

/** A client whose clock the test moves; `waiting` opens as soon as a pause waits for the workers. */
async function openClient() {
  const hand = handClock();
  const waiting = latch();
  const clock: Clock = {
    ...hand,
    sleep(ms) {
      if (ms === PAUSE_KNOWN_MS) waiting.open();
      return hand.sleep(ms);
    },
  };
  const client = openClientResources({ redisUrl: redisUrl(), prefix: uniquePrefix(), clock });
  closeAtEnd(() => client.close());
  await until(() => client.redis.status === "ready");
  return { advance: hand.advance, waiting, client };
}

test("a pause is answered when every worker knows of it, and not before", async () => {
  const { advance, waiting, client } = await openClient();
  let isAnswered = false;
  const pausing = client.pause.pause("budget").then((state) => {
    isAnswered = true;
    return state;
  });
  await Promise.race([waiting.opened, pausing]);
  advance(PAUSE_KNOWN_MS - 1);
  await client.redis.ping();
  expect(isAnswered).toBe(false);
  advance(1);
  expect(await pausing).toMatchObject({ reason: "budget" });
});

test("a pause whose reason nobody could read pauses nothing", async () => {
  const { client } = await openClient();
  for (const reason of ["", "x".repeat(501)])
    await expect(client.pause.pause(reason)).rejects.toMatchObject({ code: "invalid_input" });
  expect(await client.pause.state()).toBeUndefined();
});
