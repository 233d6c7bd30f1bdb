/** Webhooks whose receivers take some entries and not others: the others hold up none, in whatever number and order. */
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { parentMember } from "../../../src/shared/protocol/keys.ts";
import { HOUR_MS, openChoosyWebhook, PARENT } from "../../helpers/choosy-webhook.ts";
import { until } from "../../helpers/until.ts";

/** Requests for one parent at a time, and failures that end a round. */
const AT_A_TIME = 16;
const MOST_FAILURES = 3;

/** A parent whose receiver treats the entries that `isBad` names by their number as `refuse` says, and takes the others. */
async function scene(isBad: (n: number) => boolean, refuse: (response: ServerResponse) => void) {
  const taken = new Set<number>();
  const webhook = await openChoosyWebhook((n, response) => {
    if (isBad(n)) return refuse(response);
    taken.add(n);
    response.writeHead(204).end();
  });
  return { ...webhook, taken };
}

const with500 = (response: ServerResponse) => void response.writeHead(500).end();

test("a receiver that refuses a tenth gets all others at once, however many were refused", async () => {
  const { stage, taken, write, start, setWebhook, asked } = await scene((n) => n % 10 === 0, with500);
  await write(1, 100);
  await setWebhook();
  start(HOUR_MS);
  await until(() => asked.length > 0);
  // No walk finds what a round leaves.
  await stage.redis.del(stage.keys.webhooks);
  await until(() => taken.size === 90 && asked.length >= 100);
  expect(asked).toHaveLength(100);
});

test("a receiver that takes nothing is not asked for every entry", async () => {
  const { stage, write, start, setWebhook, asked } = await scene(() => true, with500);
  await write(1, 100);
  await setWebhook();
  start(HOUR_MS);
  await until(() => asked.length > 0);
  await stage.redis.del(stage.keys.webhooks);
  const { webhooksDue, webhookHolders } = stage.keys;
  const member = parentMember(PARENT);
  await until(async () => Number(await stage.redis.zscore(webhooksDue, member)) > Date.now() + HOUR_MS / 4);
  await until(async () => (await stage.redis.hexists(webhookHolders, member)) === 0);
  // The walks at the start begin two rounds at most.
  expect(asked.length).toBeLessThan(2 * (AT_A_TIME + MOST_FAILURES));
});

test("a new entry is pushed at once and alone, also while the refused ones are being tried once more", async () => {
  const bad = 60;
  const { taken, write, start, setWebhook, refuseAll, asked } = await scene((n) => n <= bad, with500);
  await write(1, bad);
  await setWebhook();
  await refuseAll();
  start(HOUR_MS);
  for (let n = bad + 1; n <= bad + 5; n++) {
    await write(n);
    await until(() => taken.has(n));
  }
  expect(asked).toEqual([...taken]);
});

test("entries at which a receiver falls silent do not keep those behind them for ever", async () => {
  const bad = AT_A_TIME + MOST_FAILURES + 1;
  const { taken, write, start, setWebhook } = await scene(
    (n) => n <= bad,
    (response) => void response.destroy(),
  );
  await write(1, bad + 5);
  await setWebhook();
  start(20);
  await until(() => taken.size === 5, { timeoutMs: 20_000 });
});
