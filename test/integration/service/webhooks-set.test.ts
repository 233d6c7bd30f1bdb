/** Guarantee: a webhook that is set while an earlier one is removed, or found to be gone, misses no reply either. */
import { createServer } from "node:http";
import { expect, test, vi } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { parentMember } from "../../../src/shared/protocol/keys.ts";
import { createWebhookSlots } from "../../../src/shared/redis/webhook-slot.ts";
import { createWebhooks } from "../../../src/shared/redis/webhooks.ts";
import { startApi } from "../../helpers/api.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { testParent } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const PARENT = { tenant: "default", parentId: "pushed" };

/** A client whose next removal from the set of webhooks comes only after `meanwhile`. */
async function slowRemover(stage: Stage, meanwhile: () => Promise<unknown>) {
  const client = stage.client();
  await client.start();
  const { redis, keys } = await internalsOf(client).open();
  const srem = redis.srem.bind(redis);
  vi.spyOn(redis, "srem").mockImplementationOnce(async (...args) => {
    await meanwhile();
    return srem(...args);
  });
  return { client, redis, keys };
}

type Remover = Awaited<ReturnType<typeof slowRemover>>;

test.for([
  [
    "removed by its parent",
    async ({ client }: Remover) => testParent(client, { parentId: "pushed" }).webhook.remove(),
  ],
  [
    "gone, as its receiver says",
    async ({ redis, keys }: Remover) => {
      const webhook = await createWebhooks(redis, keys).get(PARENT);
      const gone = {
        status: "gone",
        problem: "gone",
        failures: 1,
        waitMs: 0,
        after: "0",
        newest: "0",
      } as const;
      if (webhook) await createWebhookSlots(redis, keys).note(PARENT, webhook, gone);
    },
  ],
] as const)(
  "a webhook that is set while the one before is %s gets what no process pushed",
  async ([, end]) => {
    const stage = await openStage();
    const parent = stage.parent("pushed");
    let received = 0;
    const receiver = createServer((request, response) => {
      request.resume().on("end", () => {
        received += 1;
        response.writeHead(200).end();
      });
    });
    const url = `${await listenUntilEnd(receiver)}/hook`;
    await parent.webhook.set({ url: "http://127.0.0.1:9/before" });
    await end(await slowRemover(stage, () => parent.webhook.set({ url })));
    expect(await parent.webhook.get()).toMatchObject({ url, status: "active" });
    expect(await stage.redis.smembers(stage.keys.webhooks)).toEqual([parentMember(PARENT)]);
    // As a slot that ended with the channel empty: only the set of webhooks leads to the parent.
    await stage.redis.del(stage.keys.webhooksDue);
    await stage.startWorker();
    await parent.send((await parent.spawn({ name: "helper" })).agent_id, "Say hello");
    await until(async () => (await stage.redis.xlen(stage.keys.parent(PARENT).replies)) === 1);
    await startApi({ client: stage.client(), webhookReach: "any" });
    await until(() => received === 1, { what: "the reply to be pushed" });
  },
);

test("a parent whose webhook was removed has no place in the set any more", async () => {
  const stage = await openStage();
  const parent = stage.parent("pushed");
  await parent.webhook.set({ url: "http://127.0.0.1:9/hook" });
  await parent.webhook.remove();
  expect(await stage.redis.exists(stage.keys.webhooks, stage.keys.webhooksDue)).toBe(0);
});
