/** A parent whose entries have numbers, and the receiver of its webhook, which treats each by its number. */
import { createServer, type ServerResponse } from "node:http";
import { tellRefusal } from "../../src/service/intake/spawn.ts";
import { createWebhookPush } from "../../src/service/webhooks/push.ts";
import { parentMember } from "../../src/shared/protocol/keys.ts";
import { openStage } from "../stage/stage.ts";
import { closeAtEnd } from "./cleanup.ts";
import { listenUntilEnd } from "./listen.ts";

export const PARENT = { tenant: "default", parentId: "choosy" };
export const HOUR_MS = 3_600_000;

/** Opens a stage with the parent; its receiver answers the request for entry `n` as `answer` says. `asked`: the requests so far. */
export async function openChoosyWebhook(answer: (n: number, response: ServerResponse) => void) {
  const stage = await openStage();
  const { redis, keys } = stage;
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
  const url = await listenUntilEnd(server);
  return {
    stage,
    asked,
    setWebhook: () => stage.parent(PARENT.parentId).webhook.set({ url }),
    /** Writes the entries `from` to `to`. */
    async write(from: number, to = from) {
      for (let n = from; n <= to; n++) {
        const wish = { parent: PARENT, requestKey: undefined };
        await tellRefusal(client, wish, `1-${n}`, new Error(`no ${n}`));
      }
    },
    /** As if all entries had been refused, and the last retries had ended in the middle. Returns the time of the next one. */
    async refuseAll() {
      const { replies, webhook } = keys.parent(PARENT);
      const ids = (await redis.xrange(replies, "-", "+")).map(([id]) => id);
      const [after = "", newest = ""] = [ids[ids.length / 2], ids.at(-1)];
      await redis.hset(webhook, { failures: 8, after, newest, last_problem: "The receiver answered 500." });
      const [member, retryAtMs] = [parentMember(PARENT), Date.now() + HOUR_MS];
      await redis.hset(keys.webhookHolders, `${member}/retry`, retryAtMs);
      await redis.zadd(keys.webhooksDue, retryAtMs, member);
      return retryAtMs;
    },
    start(backoffMs: number) {
      // With the smallest room, a page is read when the one before was released.
      const options = { reach: "any", backoffMs, mostHeldChars: 1 } as const;
      const push = createWebhookPush({ client: stage.client(), ...options });
      closeAtEnd(() => push.stop());
      push.start();
      return push;
    },
  };
}
