/** The list of parents over HTTP: a tenant's own, the last active first, in pages that miss none. */
import { beforeAll, expect, test } from "vitest";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { startApi, type TestApi } from "../../helpers/api.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

let stage: Stage;
let api: TestApi;

beforeAll(async () => {
  stage = await openStage();
  api = await startApi({ client: stage.client() });
});

test("says of each parent what is live, what waits in its channel and what it used today", async () => {
  await stage.startWorker();
  const parent = stage.parent("busy");
  await parent.spawn({ name: "idler" });
  await parent.spawn({ name: "worker", keep_alive: true });
  const entry = parent.replies()[Symbol.asyncIterator]();
  await parent.send("worker", "Say hello");
  await entry.next();
  const { status, body } = await api.ask("GET", "/v1/parents");
  expect(status).toBe(200);
  expect(body).toEqual({
    parents: [
      {
        parent_id: "busy",
        active_at: expect.stringMatching(/^\d{4}-.*Z$/),
        live: { running: 0, queued: 0, waiting: 0, idle: 2 },
        unacked: 1,
        today: { turns: expect.any(Number), tokens: expect.any(Number), cost_usd: 0 },
      },
    ],
  });
  expect(body.parents[0].today.turns).toBeGreaterThan(0);
});

test("pages show each parent of the tenant once, and none of another", async () => {
  const crowd = await openStage();
  const entries = Array.from({ length: 3_000 }, (_, n) => [n, n % 100 === 0 ? `acme/p${n}` : `other/p${n}`]);
  await crowd.redis.zadd(crowd.keys.parents, ...entries.flat());
  const { token } = await createApiKeys(crowd.redis, crowd.keys).create({
    tenant: "acme",
    name: "reader",
    scope: "read",
  });
  const door = await startApi({ client: crowd.client() });
  const seen: string[] = [];
  let [cursor, pages]: [string | undefined, number] = ["0", 0];
  while (cursor !== undefined) {
    const { body } = await door.ask("GET", `/v1/parents?limit=7&after=${cursor}`, { token });
    seen.push(...body.parents.map(({ parent_id }: { parent_id: string }) => parent_id));
    expect(body.parents.length).toBeLessThanOrEqual(7);
    cursor = body.cursor;
    pages += 1;
  }
  expect(seen).toEqual(Array.from({ length: 30 }, (_, n) => `p${2_900 - 100 * n}`));
  expect(pages).toBeLessThan(10);
});

test.for(["limit=0", "limit=101", "after=-1", "after=x", "since=1"])("%s is refused", async (query) => {
  expect(await api.ask("GET", `/v1/parents?${query}`)).toMatchObject({
    status: 400,
    body: { code: "invalid_input" },
  });
});
