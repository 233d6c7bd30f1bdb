/** Webhooks at rest: what they cost does not grow with the parents that have one; what rang unheard is pushed all the same. */
import { createServer, type ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import { tellRefusal } from "../../../src/service/intake/spawn.ts";
import { createWebhookPush } from "../../../src/service/webhooks/push.ts";
import { createWebhookSlots } from "../../../src/shared/redis/webhook-slot.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

/** A page of the walk at a tick has 200, give or take what a bucket of the set holds. */
const MOST_A_PAGE = 250;
/** Of a push that has nothing to do, a tick: its check, a ping, and what the test asks. */
const MOST_ELSE_A_PAGE = 10;

function startPush(stage: Stage) {
  const push = createWebhookPush({ client: stage.client(), reach: "any", backoffMs: 20 });
  closeAtEnd(() => push.stop());
  push.start();
}

/** Calls of each command so far. */
async function callsOf(stage: Stage): Promise<Map<string, number>> {
  const stats = await stage.redis.info("commandstats");
  return new Map(
    [...stats.matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)].map(([, name = "", n]) => [name, Number(n)]),
  );
}

test.for([100, 3_000])("at rest %i parents cost a page a tick", async (count) => {
  const stage = await openStage({ redis: "own" });
  const { redis, keys } = stage;
  const parents = Array.from({ length: count }, (_, i) => ({ tenant: "default", parentId: `p${i}` }));
  await redis.sadd(keys.webhooks, ...parents.map(({ parentId }) => `default/${parentId}`));
  const fields = { v: "1", url: "http://127.0.0.1:9/", secret: "whsec_AAAA", created_at: "2026-01-01" };
  await Promise.all(parents.map((parent) => redis.hset(keys.parent(parent).webhook, fields)));
  startPush(stage);
  // The walk through all of them comes first.
  const begun = await until(async () => {
    const calls = await callsOf(stage);
    return (calls.get("xlen") ?? 0) >= count && calls;
  });
  const looked = (calls: Map<string, number>, name: string) =>
    (calls.get(name) ?? 0) - (begun.get(name) ?? 0);
  const calls = await until(async () => {
    const now = await callsOf(stage);
    return looked(now, "sscan") >= 1 && looked(now, "xlen") >= 1 && now;
  });
  const pages = looked(calls, "sscan");
  expect(looked(calls, "xlen")).toBeLessThanOrEqual(pages * MOST_A_PAGE);
  const others = [...calls.keys()].filter((name) => !["xlen", "sscan", "info"].includes(name));
  const elsewhere = others.reduce((sum, name) => sum + looked(calls, name), 0);
  expect(elsewhere).toBeLessThanOrEqual((pages + 1) * MOST_ELSE_A_PAGE);
});

test("128 parents at most are pushed for at a time; one that is done makes room for the next", async () => {
  const stage = await openStage();
  const held: ServerResponse[] = [];
  const server = createServer((request, response) => {
    request.resume().on("end", () => void held.push(response));
  });
  const url = await listenUntilEnd(server);
  const client = stage.client();
  await Promise.all(
    Array.from({ length: 130 }, async (_, i) => {
      const parent = { tenant: "default", parentId: `p${i}` };
      await stage.parent(parent.parentId).webhook.set({ url });
      await tellRefusal(client, { parent, requestKey: undefined }, "1-1", new Error("no"));
    }),
  );
  // One walk finds all of them: what takes more slots has taken them before the first request has come.
  startPush(stage);
  await until(() => held.length >= 128);
  expect(await stage.redis.hlen(stage.keys.webhookHolders)).toBe(128);
  held[0]?.writeHead(204).end();
  await until(() => held.length >= 129);
  expect(await stage.redis.hlen(stage.keys.webhookHolders)).toBe(128);
});

describe("an entry that no process heard of", () => {
  async function scene(parentId: string) {
    const stage = await openStage();
    const pushed: string[] = [];
    const server = createServer((request, response) => {
      request.resume().on("end", () => {
        pushed.push(String(request.headers["webhook-id"]));
        response.writeHead(204).end();
      });
    });
    const parent = stage.parent(parentId);
    await stage.startWorker();
    await parent.webhook.set({ url: await listenUntilEnd(server) });
    const { reply } = await taskOf(stage, parentId);
    return { stage, pushed, replyId: reply };
  }

  /** A reply that stays in its channel. */
  async function taskOf(stage: Stage, parentId: string) {
    const agent = await stage.parent(parentId).spawn({ name: "helper" });
    await stage.parent(parentId).send(agent.agent_id, "Say hello");
    const [entry] = await until(async () => {
      const { entries } = await stage.parent(parentId).newReplies();
      return entries.length > 0 && entries;
    });
    if (!entry) throw new Error("no entry");
    return { reply: entry.reply_id };
  }

  test("is found when a process begins to listen", async () => {
    const { stage, pushed, replyId } = await scene("early");
    // As after a slot that ended before the entry came.
    await stage.redis.del(stage.keys.webhooksDue);
    startPush(stage);
    await until(() => pushed.length > 0);
    expect(pushed).toEqual([replyId]);
  });

  test("is pushed when the slot of a process that died ends, by one that has looked before", async () => {
    const { stage, pushed, replyId } = await scene("orphaned");
    const { redis, keys } = stage;
    await redis.del(keys.webhooksDue);
    const slots = createWebhookSlots(redis, keys);
    await slots.begin({ tenant: "default", parentId: "orphaned" }, { token: "dead", ms: 1_500 });
    // So that no walk finds it first.
    await redis.del(keys.webhooks);
    startPush(stage);
    await until(() => pushed.length > 0);
    expect(pushed).toEqual([replyId]);
    await until(async () => (await redis.exists(keys.webhookHolders)) === 0);
  });
});
