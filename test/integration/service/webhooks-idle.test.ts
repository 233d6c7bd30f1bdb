/** Webhooks at rest: what they cost does not grow with the parents that have one; what rang unheard is pushed all the same. */
import { createServer, type ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import { tellRefusal } from "../../../src/service/intake/spawn.ts";
import { createWebhookPush, type WebhookPushOptions } from "../../../src/service/webhooks/push.ts";
import { type Clock, systemClock } from "../../../src/shared/clock.ts";
import { createResolver } from "../../../src/shared/dns.ts";
import { parentMember } from "../../../src/shared/protocol/keys.ts";
import { createWebhookSlots } from "../../../src/shared/redis/webhook-slot.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { startNameServer } from "../../helpers/name-server.ts";
import { testParent } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

/** A page of the walk at a tick has 200, give or take what a bucket of the set holds. */
const MOST_A_PAGE = 250;
/** Of a push that has nothing to do, a tick: its check, a ping, and what the test asks. */
const MOST_ELSE_A_PAGE = 10;

function startPush(stage: Stage, clock: Clock = systemClock, options: Partial<WebhookPushOptions> = {}) {
  const client = stage.client({ clock });
  const push = createWebhookPush({ client, reach: "any", backoffMs: 20, ...options });
  closeAtEnd(() => push.stop());
  push.start();
}

/** A receiver that answers nothing by itself. */
async function startReceiver() {
  const held: { path: string; response: ServerResponse }[] = [];
  const server = createServer((request, response) => {
    request.resume().on("end", () => void held.push({ path: request.url ?? "", response }));
  });
  return { url: await listenUntilEnd(server), held };
}

/** Gives a parent a webhook below `url`, and an entry (number `n` of it) that waits. */
function waitingParents(stage: Stage, url: string) {
  const client = stage.client();
  return async (tenant: string, parentId: string, n = 1) => {
    if (n === 1)
      await testParent(client, { tenant, parentId }).webhook.set({ url: `${url}/${tenant}/${parentId}` });
    const wish = { parent: { tenant, parentId }, requestKey: undefined };
    await tellRefusal(client, wish, `1-${n}`, new Error("no"));
  };
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
  const { url, held } = await startReceiver();
  const tell = waitingParents(stage, url);
  await Promise.all(Array.from({ length: 130 }, (_, i) => tell(`tenant-${i % 3}`, `p${i}`)));
  // One walk finds all of them: what takes more slots has taken them before the first request has come.
  startPush(stage);
  await until(() => held.length >= 128);
  expect(await stage.redis.hlen(stage.keys.webhookHolders)).toBe(128);
  held[0]?.response.writeHead(204).end();
  await until(() => held.length >= 129);
  expect(await stage.redis.hlen(stage.keys.webhookHolders)).toBe(128);
});

test("one tenant has half of them at most: the others' replies are pushed, however slow its receivers are", async () => {
  const stage = await openStage();
  const { url, held } = await startReceiver();
  const tell = waitingParents(stage, url);
  const of = (tenant: string) => held.filter(({ path }) => path.startsWith(`/${tenant}/`));
  await Promise.all(Array.from({ length: 70 }, (_, i) => tell("greedy", `p${i}`)));
  startPush(stage);
  await until(() => of("greedy").length >= 64);
  for (const parentId of ["first", "second"]) {
    await tell("modest", parentId);
    await until(() => of("modest").some(({ path }) => path.endsWith(parentId)));
  }
  expect(of("greedy")).toHaveLength(64);
  of("greedy")[0]?.response.writeHead(204).end();
  await until(() => of("greedy").length > 64);
  expect(of("greedy")).toHaveLength(65);
});

test("webhooks whose names nothing answers for hold up none of another tenant", async () => {
  const stage = await openStage();
  const { url, held } = await startReceiver();
  const slow = Array.from({ length: 8 }, (_, i) => `n${i}.slow.test`);
  const { server, asked } = await startNameServer({
    ...Object.fromEntries(slow.map((name) => [name, "silent" as const])),
    "sound.test": ["127.0.0.1"],
  });
  for (const [i, name] of slow.entries()) {
    const tell = waitingParents(stage, `http://${name}`);
    for (let n = 1; n <= 16; n++) await tell("greedy", `p${i}`, n);
  }
  startPush(stage, systemClock, { resolve: createResolver({ servers: [server] }) });
  await until(() => slow.every((name) => asked.includes(`${name} A`)));
  await waitingParents(stage, url.replace("127.0.0.1", "sound.test"))("modest", "p");
  await until(() => held.some(({ path }) => path === "/modest/p"));
});

test("a parent with a slow receiver gives its slot to the next one after a minute, whatever it has left", async () => {
  const stage = await openStage();
  const { url, held } = await startReceiver();
  let aheadMs = 0;
  const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + aheadMs };
  const tell = waitingParents(stage, url);
  // One more than are sent at a time.
  for (let n = 1; n <= 17; n++) await tell("default", "slow", n);
  await Promise.all(Array.from({ length: 63 }, (_, i) => tell("default", `p${i}`)));
  startPush(stage, clock);
  await until(() => held.length >= 16 + 63);
  await tell("default", "next");
  // Rings come in their order: with this one the other is heard.
  await tell("other", "last");
  await until(() => held.some(({ path }) => path === "/other/last"));
  aheadMs = 60_000;
  for (const { path, response } of held) if (path.endsWith("/slow")) response.writeHead(204).end();
  await until(() => held.length > 16 + 63 + 1);
  expect(held.at(-1)?.path).toBe("/default/next");
});

test("refused entries wait for their retry also if a round of newer ones reaches its limit", async () => {
  const stage = await openStage();
  const { redis, keys } = stage;
  const { url, held } = await startReceiver();
  let aheadMs = 0;
  const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + aheadMs };
  const tell = waitingParents(stage, url);
  const address = { tenant: "default", parentId: "refusing" };
  const [member, { webhook, replies }] = [parentMember(address), keys.parent(address)];
  await tell("default", "refusing");
  const [[refused = ""] = []] = await redis.xrevrange(replies, "+", "-", "COUNT", 1);
  const retryAt = Date.now() + 3_600_000;
  await redis.hset(webhook, { failures: 1, after: refused, last_problem: "The receiver answered 500." });
  await redis.hset(keys.webhookHolders, `${member}/retry`, retryAt);
  await redis.zadd(keys.webhooksDue, retryAt, member);
  // One more than are sent at a time.
  for (let n = 2; n <= 18; n++) await tell("default", "refusing", n);
  startPush(stage, clock);
  await until(() => held.length === 16);
  // No walk finds what the round leaves.
  await redis.del(keys.webhooks);
  aheadMs = 60_000;
  for (const { response } of held) response.writeHead(204).end();
  await until(() => held.length > 16);
  for (const { response } of held.slice(16)) response.writeHead(204).end();
  await until(async () => (await redis.hexists(keys.webhookHolders, member)) === 0);
  expect(held).toHaveLength(17);
  expect((await redis.xrange(replies, "-", "+")).map(([id]) => id)).toEqual([refused]);
  expect(await redis.hget(webhook, "failures")).toBe("1");
});

test("an entry that comes while another one of its parent is being sent is pushed behind it", async () => {
  const stage = await openStage();
  const { url, held } = await startReceiver();
  const tell = waitingParents(stage, url);
  const of = (parentId: string) => held.filter(({ path }) => path === `/default/${parentId}`);
  await tell("default", "slow");
  startPush(stage);
  await until(() => of("slow").length === 1);
  // No walk finds what its process has heard of.
  await stage.redis.del(stage.keys.webhooks);
  await tell("default", "slow", 2);
  // Rings come in their order: with this one the other is heard.
  await tell("default", "last");
  await until(() => of("last").length === 1);
  expect(of("slow")).toHaveLength(1);
  for (const { response } of of("slow")) response.writeHead(204).end();
  await until(() => of("slow").length === 2);
});

test("a slot that another process has is asked for once at a ring, and not again until it is free", async () => {
  const stage = await openStage({ redis: "own" });
  const { url, held } = await startReceiver();
  const tell = waitingParents(stage, url);
  startPush(stage);
  await tell("default", "slow");
  await until(() => held.length === 1);
  startPush(stage);
  await tell("default", "slow", 2);
  // Both have heard the ring when they have heard the one behind it.
  const again = `default/slow/again`;
  await until(() => stage.redis.hexists(stage.keys.webhookHolders, again));
  const before = await callsOf(stage);
  for (let i = 0; i < 200; i++) await stage.redis.ping();
  const after = await callsOf(stage);
  expect((after.get("evalsha") ?? 0) - (before.get("evalsha") ?? 0)).toBeLessThan(20);
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
