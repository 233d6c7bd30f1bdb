/** Guarantee: a stop waits for no time limit, also while the client of the pushes cannot be opened. */
import { expect, test } from "vitest";
import { createClient } from "../../../../src/producer/client.ts";
import { createWebhookPush } from "../../../../src/service/webhooks/push.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { until } from "../../../helpers/until.ts";

test("a push that waits to try again stops at once", async () => {
  const client = createClient({ redisUrl: "redis://127.0.0.1:1" });
  await client.stop();
  const clock = handClock();
  const push = createWebhookPush({ client, clock });
  push.start();
  await until(() => clock.pending === 1);
  await push.stop();
  expect(clock.pending).toBe(0);
});
