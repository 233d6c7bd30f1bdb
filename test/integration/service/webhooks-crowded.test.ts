/** What the due webhooks of a tenant cost that has more of them than room. */
import { createServer, type ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { tellRefusal } from "../../../src/service/intake/spawn.ts";
import { createWebhookPush } from "../../../src/service/webhooks/push.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { testParent } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const DUE = 70;
/** Half of all slots. */
const ROOM = 64;
/** Longer than the lease of a slot, shorter than the wait of a parent without room. */
const FAR_MS = 20_000;

test("due parents of a crowded tenant are not taken again and again, and begin when it has room", async () => {
  const stage = await openStage();
  const { redis, keys } = stage;
  const client = stage.client();
  const held: ServerResponse[] = [];
  const url = await listenUntilEnd(
    createServer((request, response) => void request.resume().on("end", () => held.push(response))),
  );
  const parents = Array.from({ length: DUE }, (_, i) => ({ tenant: "crowded", parentId: `p${i}` }));
  await Promise.all(
    parents.map(async (parent, i) => {
      await testParent(client, parent).webhook.set({ url });
      await tellRefusal(client, { parent, requestKey: undefined }, `1-${i}`, new Error("no"));
      await redis.zadd(keys.webhooksDue, 1, `crowded/p${i}`);
    }),
  );
  const push = createWebhookPush({ client: stage.client(), reach: "any" });
  closeAtEnd(() => push.stop());
  push.start();
  await until(() => held.length >= ROOM, { what: "the requests" });
  const far = () => redis.zcount(keys.webhooksDue, Date.now() + FAR_MS, "+inf");
  await until(async () => (await far()) === DUE - ROOM, { what: "those without room" });
  expect(held).toHaveLength(ROOM);
  held[0]?.writeHead(204).end();
  await until(() => held.length > ROOM, { what: "the next one" });
  await until(async () => (await far()) === DUE - ROOM - 1, { what: "its slot" });
});
