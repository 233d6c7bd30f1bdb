/** Webhooks whose receivers take some entries and not others: the others hold up none, in whatever number and order. */
import { createServer, type ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { tellRefusal } from "../../../src/service/intake/spawn.ts";
import { createWebhookPush } from "../../../src/service/webhooks/push.ts";
import { parentMember } from "../../../src/shared/protocol/keys.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const PARENT_ID = "choosy";
const PARENT = { tenant: "default", parentId: PARENT_ID };
const HOUR_MS = 3_600_000;
/** Requests for one parent at a time, and failures that end a round. */
const AT_A_TIME = 16;
const MOST_FAILURES = 3;

/** A parent whose receiver treats the entries that `isBad` names by their number as `refuse` says, and takes the others. */
async function scene(isBad: (n: number) => boolean, refuse: (response: ServerResponse) => void) {
  const stage = await openStage();
  const client = stage.client();
  const asked: number[] = [];
  const taken = new Set<number>();
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      const n = Number(/\d+$/.exec(JSON.parse(body).data.error)?.[0]);
      asked.push(n);
      if (isBad(n)) return refuse(response);
      taken.add(n);
      response.writeHead(204).end();
    });
  });
  const url = await listenUntilEnd(server);
  return {
    stage,
    asked,
    taken,
    setWebhook: () => stage.parent(PARENT_ID).webhook.set({ url }),
    /** Writes the entries `from` to `to`. */
    async write(from: number, to: number) {
      for (let n = from; n <= to; n++) {
        const wish = { parent: PARENT, requestKey: undefined };
        await tellRefusal(client, wish, `1-${n}`, new Error(`no ${n}`));
      }
    },
    start(backoffMs: number) {
      const push = createWebhookPush({ client: stage.client(), reach: "any", backoffMs });
      closeAtEnd(() => push.stop());
      push.start();
    },
  };
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
  const { stage, taken, write, start, setWebhook, asked } = await scene((n) => n <= bad, with500);
  const { redis, keys } = stage;
  await write(1, bad);
  await setWebhook();
  // Each was tried, and the last retries ended in the middle.
  const { replies, webhook } = keys.parent(PARENT);
  const ids = (await redis.xrange(replies, "-", "+")).map(([id]) => id);
  const [after = "", newest = ""] = [ids[bad / 2], ids.at(-1)];
  await redis.hset(webhook, { failures: 8, after, newest, last_problem: "The receiver answered 500." });
  const [member, retryAt] = [parentMember(PARENT), Date.now() + HOUR_MS];
  await redis.hset(keys.webhookHolders, `${member}/retry`, retryAt);
  await redis.zadd(keys.webhooksDue, retryAt, member);
  start(HOUR_MS);
  for (let n = bad + 1; n <= bad + 5; n++) {
    await write(n, n);
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
