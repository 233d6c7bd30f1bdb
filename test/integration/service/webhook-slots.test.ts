/** The slot to push for a parent: a process that has lost it, or may have, leaves the rest to the one that has it now. */
import { createServer, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { tellRefusal } from "../../../src/service/intake/spawn.ts";
import { createWebhookPush } from "../../../src/service/webhooks/push.ts";
import { type Clock, systemClock } from "../../../src/shared/clock.ts";
import { parentMember } from "../../../src/shared/protocol/keys.ts";
import type { VerbName } from "../../../src/shared/redis/scripts.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { commandReader, isCallOf } from "../../helpers/redis-commands.ts";
import { openRedisLine } from "../../helpers/redis-line.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const LEASE_MS = 5_000;
/** No slot that is kept ends so late. */
const NEVER = 1e15;
/** Requests for one parent at a time. */
const AT_A_TIME = 16;
/** Far more than a round takes, and less than a walk would, which finds what no ring told. */
const SOON = { timeoutMs: 20_000 };

/** A stage, the requests that its receiver got and holds, and the slots of its parents. */
async function scene() {
  const stage = await openStage();
  const { redis, keys } = stage;
  const client = stage.client();
  const held: { parentId: string; response: ServerResponse }[] = [];
  const server = createServer((request, response) => {
    request.resume().on("end", () => void held.push({ parentId: request.url?.slice(1) ?? "", response }));
  });
  const url = await listenUntilEnd(server);
  return {
    stage,
    /** The requests for a parent. */
    of: (parentId: string) => held.filter((each) => each.parentId === parentId),
    /** Gives a parent a webhook and `count` entries. */
    async listen(parentId: string, count = 1) {
      await stage.parent(parentId).webhook.set({ url: `${url}/${parentId}` });
      const wish = { parent: { tenant: "default", parentId }, requestKey: undefined };
      for (let n = 1; n <= count; n++) await tellRefusal(client, wish, `1-${n}`, new Error("no"));
    },
    /** From now on no walk finds what no ring told. */
    walkNoMore: () => redis.del(keys.webhooks),
    start(clock: Clock = systemClock, through = redisUrl()) {
      const pushing = stage.client({ redisUrl: through });
      const push = createWebhookPush({ client: pushing, reach: "any", backoffMs: 20, clock });
      closeAtEnd(() => push.stop());
      push.start();
      return push;
    },
    /** As when another process has taken the slot of a parent. */
    async giveToAnother(parentId: string) {
      await redis.hset(keys.webhookHolders, memberOf(parentId), "another");
      await redis.zadd(keys.webhooksDue, NEVER, memberOf(parentId));
    },
    /** Whether a process heard of an entry, and left it to the one that has the slot. */
    isLeft: async (parentId: string) =>
      (await redis.hexists(keys.webhookHolders, `${memberOf(parentId)}/again`)) === 1,
    isHeld: async (parentId: string) => (await redis.hexists(keys.webhookHolders, memberOf(parentId))) === 1,
    /** Resolves when a process has kept its slot of a parent once more. */
    async kept(parentId: string) {
      const score = async () => Number(await redis.zscore(keys.webhooksDue, memberOf(parentId)));
      await redis.zadd(keys.webhooksDue, NEVER, memberOf(parentId));
      await until(async () => (await score()) < NEVER, SOON);
    },
  };
}

const memberOf = (parentId: string) => parentMember({ tenant: "default", parentId });

/** A line to the shared Redis that holds back the answer to the first call of a script, until `release`. */
async function holdingLine(verb: VerbName) {
  const isCall = isCallOf(verb);
  let held: Socket | undefined;
  const url = await openRedisLine(Number(new URL(redisUrl()).port), (client, upstream) => {
    const read = commandReader();
    client.on("data", (chunk: Buffer) => {
      if (!held && read(chunk).some(({ words }) => isCall(words))) held = upstream.pause();
      upstream.write(chunk);
    });
    upstream.on("data", (chunk: Buffer) => client.write(chunk));
  });
  return {
    url,
    get isHeld() {
      return held !== undefined;
    },
    release: () => void held?.resume(),
  };
}

test("a slot whose answer was long on its way may be another's: nothing is pushed, and its parent is looked at again", async () => {
  const { stage, of, listen, walkNoMore, start, giveToAnother, isLeft, isHeld } = await scene();
  const line = await holdingLine("webhook-begin");
  let aheadMs = 0;
  await listen("late");
  // As after a slot that ended before the entry came: the walk finds it.
  await stage.redis.del(stage.keys.webhooksDue);
  start({ ...systemClock, monotonicMs: () => systemClock.monotonicMs() + aheadMs }, line.url);
  await until(async () => line.isHeld && (await isHeld("late")));
  aheadMs = LEASE_MS;
  await walkNoMore();
  await giveToAnother("late");
  line.release();
  await until(async () => of("late").length > 0 || (await isLeft("late")), SOON);
  expect(of("late")).toEqual([]);
});

test("a slot that another process has now is left to it: what was not sent yet is not", async () => {
  const { of, listen, walkNoMore, start, giveToAnother, isLeft, kept } = await scene();
  await listen("lost", AT_A_TIME + 2);
  await listen("kept");
  start();
  await until(() => of("kept").length === 1 && of("lost").length === AT_A_TIME);
  await walkNoMore();
  await giveToAnother("lost");
  // The second check begins after the answer to the first, which names the lost slot.
  await kept("kept");
  await kept("kept");
  for (const { response } of of("lost")) response.writeHead(204).end();
  await until(async () => of("lost").length > AT_A_TIME || (await isLeft("lost")), SOON);
  expect(of("lost")).toHaveLength(AT_A_TIME);
});

test("what a process that stops has left is pushed by another one at once, not at its next check", async () => {
  const { stage, of, listen, walkNoMore, start } = await scene();
  const { redis, keys } = stage;
  await listen("handed");
  const stopping = start();
  await until(() => of("handed").length === 1);
  await walkNoMore();
  // Its checks never come.
  start(handClock());
  await until(async () => (await redis.pubsub("NUMSUB", keys.webhookDoorbell))[1] === 2);
  await stopping.stop();
  await until(() => of("handed").length === 2, SOON);
});

test("an entry that was refused alone comes again", async () => {
  const { of, listen, walkNoMore, start } = await scene();
  await listen("alone");
  start();
  await until(() => of("alone").length === 1);
  await walkNoMore();
  of("alone")[0]?.response.writeHead(500).end();
  await until(() => of("alone").length === 2, SOON);
});
