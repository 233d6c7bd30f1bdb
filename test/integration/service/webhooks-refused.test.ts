/** Webhooks whose receivers take some entries and not others: the others hold up none, in whatever number and order. */
import { createServer, type ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { tellRefusal } from "../../../src/service/intake/spawn.ts";
import { createWebhookPush } from "../../../src/service/webhooks/push.ts";
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
  const { taken, write, start, setWebhook, asked } = await scene((n) => n % 10 === 0, with500);
  await write(1, 100);
  await setWebhook();
  start(HOUR_MS);
  await until(() => taken.size === 90);
  expect(asked).toHaveLength(100);
});

test("a receiver that takes nothing is not asked for every entry", async () => {
  const { write, start, setWebhook, asked } = await scene(() => true, with500);
  await write(1, 100);
  await setWebhook();
  start(HOUR_MS);
  await until(() => asked.length >= MOST_FAILURES);
  // Entries after these are asked for at a ring, which says that there is a new one.
  await write(101, 101);
  await until(() => asked.length > AT_A_TIME + MOST_FAILURES || asked.length >= 2 * MOST_FAILURES);
  expect(asked.length).toBeLessThan(2 * (AT_A_TIME + MOST_FAILURES));
});

test("a new entry is pushed at once and alone, also when the refused ones are being tried once more", async () => {
  const bad = 60;
  const { taken, write, start, setWebhook, asked } = await scene((n) => n <= bad, with500);
  await write(1, bad);
  await setWebhook();
  start(40);
  // Each was tried, and the retries have begun again with the oldest ones.
  await until(() => new Set(asked).size === bad && asked.length > bad + MOST_FAILURES, { timeoutMs: 60_000 });
  for (let n = bad + 1; n <= bad + 5; n++) {
    const before = asked.length;
    await write(n, n);
    await until(() => taken.has(n), { timeoutMs: 2_000 });
    expect(asked.slice(before, asked.indexOf(n)).length).toBeLessThan(AT_A_TIME + MOST_FAILURES);
  }
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
