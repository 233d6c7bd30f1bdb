/**
 * Pages of a channel that are asked for once: few of one tenant are read at a time, and those of another tenant wait for none of
 * them.
 */
import { expect, test, vi } from "vitest";
import { type Client, internalsOf } from "../../../src/producer/client.ts";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { startApi } from "../../helpers/api.ts";
import { type Latch, latch } from "../../helpers/latch.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const REPLIES = "/v1/parents/planner-7/replies";

/** An API with a key for each of two tenants. */
async function twoTenants() {
  const stage = await openStage();
  const client = stage.client();
  const api = await startApi({ client });
  const keys = createApiKeys(stage.redis, stage.keys);
  const keyOf = async (tenant: string) => (await keys.create({ tenant, name: "all", scope: "spawn" })).token;
  return { client, api, greedy: await keyOf("greedy"), modest: await keyOf("modest") };
}

/** Holds each read of the channel of `tenant` at its beginning until it is opened; the others go on. */
async function holdReads(client: Client, tenant: string) {
  const { redis, keys } = await internalsOf(client).open();
  const { replies } = keys.parent({ tenant, parentId: "planner-7" });
  const held: Latch<void>[] = [];
  const { xrange } = redis;
  const spied = vi.spyOn(redis, "xrange").mockImplementation(async (...args: unknown[]) => {
    const gate = latch();
    if (args[0] === replies) {
      held.push(gate);
      await gate.opened;
    }
    return Reflect.apply(xrange, redis, args);
  });
  return { held, restore: () => spied.mockRestore() };
}

test("a tenant's pages are read two at a time, for those who still wait; another tenant waits for none", async () => {
  const { client, api, greedy, modest } = await twoTenants();
  const { held, restore } = await holdReads(client, "greedy");
  try {
    const first = [1, 2].map(() => api.ask("GET", REPLIES, { token: greedy }));
    await until(() => held.length === 2);
    const leaving = new AbortController();
    const left = Array.from({ length: 5 }, () =>
      api.ask("GET", REPLIES, { token: greedy, signal: leaving.signal }).catch(() => "left"),
    );
    expect((await api.ask("GET", REPLIES, { token: modest })).status).toBe(200);
    leaving.abort();
    expect(await Promise.all(left)).toEqual(Array(5).fill("left"));
    const last = api.ask("GET", REPLIES, { token: greedy });
    expect((await api.ask("GET", REPLIES, { token: modest })).status).toBe(200);
    expect(held).toHaveLength(2);
    for (const gate of held) gate.open();
    await until(() => held.length === 3);
    held[2]?.open();
    expect((await Promise.all([...first, last])).map(({ status }) => status)).toEqual([200, 200, 200]);
  } finally {
    restore();
  }
});
