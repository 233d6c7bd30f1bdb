/** Rounds of pushes that a receiver's silence or a stop breaks off while refused entries wait: they keep their time, the others come first. */
import { createServer, type ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { tellRefusal } from "../../../src/service/intake/spawn.ts";
import { pushParent } from "../../../src/service/webhooks/parent-push.ts";
import { createWebhookPush } from "../../../src/service/webhooks/push.ts";
import { createSender } from "../../../src/service/webhooks/request.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { parentMember } from "../../../src/shared/protocol/keys.ts";
import { createWebhookSlots } from "../../../src/shared/redis/webhook-slot.ts";
import { createWebhooks } from "../../../src/shared/redis/webhooks.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const PARENT = { tenant: "default", parentId: "choosy" };
const HOUR_MS = 3_600_000;
const REFUSED = 60;

/** A parent with entries from number 1 on, whose receiver answers the request for each as `answer` says. */
async function scene(count: number, answer: (n: number, response: ServerResponse) => void) {
  const stage = await openStage();
  const client = stage.client();
  const asked: number[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      const n = Number(/\d+$/.exec(JSON.parse(body).data.error)?.[0]);
      asked.push(n);
      answer(n, response);
    });
  });
  const write = (n: number) =>
    tellRefusal(client, { parent: PARENT, requestKey: undefined }, `1-${n}`, new Error(`no ${n}`));
  for (let n = 1; n <= count; n++) await write(n);
  const { replies, webhook } = stage.keys.parent(PARENT);
  await stage.parent(PARENT.parentId).webhook.set({ url: await listenUntilEnd(server) });
  return {
    stage,
    asked,
    write,
    /** As if all had been refused, and the last retries had ended in the middle. */
    async refuseAll() {
      const ids = (await stage.redis.xrange(replies, "-", "+")).map(([id]) => id);
      const [after = "", newest = ""] = [ids[count / 2], ids.at(-1)];
      await stage.redis.hset(webhook, {
        failures: 8,
        after,
        newest,
        last_problem: "The receiver answered 500.",
      });
      const [member, retryAt] = [parentMember(PARENT), Date.now() + HOUR_MS];
      await stage.redis.hset(stage.keys.webhookHolders, `${member}/retry`, retryAt);
      await stage.redis.zadd(stage.keys.webhooksDue, retryAt, member);
      return retryAt;
    },
    start() {
      const push = createWebhookPush({ client: stage.client(), reach: "any", backoffMs: 20 });
      closeAtEnd(() => push.stop());
      push.start();
      return push;
    },
  };
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
  start();
  await until(() => asked.filter((n) => n === next).length === 2);
  expect(asked.slice(0, 2)).toEqual([next, next]);
});

test("refused entries keep the time of their retry when the process that pushes newer ones stops", async () => {
  const { stage, asked, write, refuseAll, start } = await scene(REFUSED, () => {});
  const retryAt = await refuseAll();
  await write(REFUSED + 1);
  const push = start();
  await until(() => asked.length > 0);
  await push.stop();
  expect(asked).toEqual([REFUSED + 1]);
  const kept = await stage.redis.hget(stage.keys.webhookHolders, `${parentMember(PARENT)}/retry`);
  expect(Math.abs(Number(kept) - retryAt)).toBeLessThan(HOUR_MS / 2);
});

test("a round that lost its slot for a moment does not count what it left as pushed", async () => {
  const count = 40;
  const { stage, asked } = await scene(count, (_, response) => void response.writeHead(204).end());
  const open = await internalsOf(stage.client()).open();
  const sender = createSender("any", systemClock);
  closeAtEnd(() => sender.close());
  const parts = {
    ...{ sender, open, webhooks: createWebhooks(open.redis, open.keys) },
    ...{ slots: createWebhookSlots(open.redis, open.keys), signal: new AbortController().signal },
    ...{ backoffMs: 20, random: Math.random, onAnswer: () => {}, logger: undefined },
  };
  let checks = 0;
  const isOurs = () => {
    checks += 1;
    return checks !== 20;
  };
  expect(await pushParent(parts, PARENT, isOurs)).toEqual({ status: "stopped" });
  expect(asked.length).toBeLessThan(count);
});
