/** Guarantee: what a tenant's receivers keep waiting takes a bounded part of the memory, and no other tenant's turn. */
import { createServer, type ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { tellRefusal } from "../../../src/service/intake/spawn.ts";
import { createWebhookPush } from "../../../src/service/webhooks/push.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { testParent } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const PARENTS = 4;
const ENTRIES = 3;

test("a tenant without room for another page gets it when those before were taken; another tenant is pushed meanwhile", async () => {
  const client = (await openStage()).client();
  const held: { path: string | undefined; response: ServerResponse }[] = [];
  let isHolding = true;
  const taken = new Set<unknown>();
  const server = createServer((request, response) => {
    const path = request.url;
    taken.add(request.headers["webhook-id"]);
    request.resume().on("end", () => {
      if (isHolding) held.push({ path, response });
      else response.writeHead(204).end();
    });
  });
  const url = await listenUntilEnd(server);
  const addParent = async (tenant: string, parentId: string) => {
    const parent = { tenant, parentId };
    for (let n = 0; n < ENTRIES; n++)
      await tellRefusal(client, { parent, requestKey: undefined }, `1-${n}`, new Error("no"));
    await testParent(client, parent).webhook.set({ url: `${url}/${tenant}/${parentId}` });
  };
  for (let i = 0; i < PARENTS; i++) await addParent("acme", `p${i}`);
  const push = createWebhookPush({ client, reach: "any", mostHeldChars: 1 });
  closeAtEnd(() => push.stop());
  push.start();
  const pushed = () => new Set(held.map(({ path }) => path));
  await until(() => held.length === 2 * ENTRIES, { what: "the requests of two pages" });
  await addParent("other", "p0");
  await until(() => held.length === 3 * ENTRIES, { what: "the requests of the other tenant" });
  expect([...pushed()].filter((path) => path?.startsWith("/acme/"))).toHaveLength(2);
  isHolding = false;
  for (const { response } of held) response.writeHead(204).end();
  await until(() => taken.size === (PARENTS + 1) * ENTRIES, { what: "the other pages" });
});
