/** Rounds of pushes that a receiver's silence or a stop breaks off while refused entries wait: they keep their time, the others come first. */
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { pushParent } from "../../../src/service/webhooks/parent-push.ts";
import { createSender } from "../../../src/service/webhooks/request.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { parentMember } from "../../../src/shared/protocol/keys.ts";
import { PageBounds } from "../../../src/shared/redis/page-bounds.ts";
import { createWebhookSlots } from "../../../src/shared/redis/webhook-slot.ts";
import { createWebhooks } from "../../../src/shared/redis/webhooks.ts";
import { HOUR_MS, openChoosyWebhook, PARENT } from "../../helpers/choosy-webhook.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";

const REFUSED = 60;
const BACKOFF_MS = 20;

/** A parent with the entries 1 to `count`, whose receiver answers the request for each as `answer` says. */
async function scene(count: number, answer: (n: number, response: ServerResponse) => void) {
  const webhook = await openChoosyWebhook(answer);
  await webhook.write(1, count);
  await webhook.setWebhook();
  return webhook;
}

test("an entry at which the receiver fell silent once comes before those that it had refused", async () => {
  const next = REFUSED + 1;
  let isSilent = true;
  const { asked, write, refuseAll, start } = await scene(REFUSED, (n, response) => {
    if (n !== next) response.writeHead(500).end();
    else if (isSilent) response.destroy();
    else response.writeHead(204).end();
    isSilent &&= n !== next;
  });
  await refuseAll();
  await write(next);
  start(BACKOFF_MS);
  await until(() => asked.filter((n) => n === next).length === 2);
  expect(asked.slice(0, 2)).toEqual([next, next]);
});

test("refused entries keep the time of their retry when the process that pushes newer ones stops", async () => {
  const { stage, asked, write, refuseAll, start } = await scene(REFUSED, () => {});
  const retryAtMs = await refuseAll();
  await write(REFUSED + 1);
  const push = start(BACKOFF_MS);
  await until(() => asked.length > 0);
  await push.stop();
  expect(asked).toEqual([REFUSED + 1]);
  const kept = await stage.redis.hget(stage.keys.webhookHolders, `${parentMember(PARENT)}/retry`);
  expect(Math.abs(Number(kept) - retryAtMs)).toBeLessThan(HOUR_MS / 2);
});

test("a round that lost its slot for a moment does not count what it left as pushed", async () => {
  const count = 40;
  const { stage, asked } = await scene(count, (_, response) => void response.writeHead(204).end());
  const open = await internalsOf(stage.client()).open();
  const sender = createSender("any", systemClock);
  closeAtEnd(() => sender.close());
  const parts = {
    ...{ sender, open, webhooks: createWebhooks(open.redis, open.keys) },
    ...{ slots: createWebhookSlots(open.redis, open.keys), bounds: new PageBounds() },
    signal: new AbortController().signal,
    ...{ backoffMs: BACKOFF_MS, random: Math.random, onAnswer: () => {}, logger: undefined },
  };
  let checks = 0;
  const isOurs = () => {
    checks += 1;
    return checks !== 20;
  };
  expect(await pushParent(parts, PARENT, isOurs)).toEqual({ status: "stopped" });
  expect(asked.length).toBeLessThan(count);
});
