/** The list of parents over HTTP: a tenant's own, the last active first, in pages that miss none. */
import { beforeAll, expect, test } from "vitest";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { createDeadlineSet } from "../../../src/shared/redis/deadlines.ts";
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

test("pages show each parent of the tenant once, and tell nothing of another tenant's", async () => {
  const crowd = await openStage();
  const door = await startApi({ client: crowd.client() });
  const { token } = await createApiKeys(crowd.redis, crowd.keys).create({
    tenant: "acme",
    name: "reader",
    scope: "read",
  });
  const activity = createDeadlineSet(crowd.redis, crowd.keys, TIMING);
  for (const tenant of ["acme", "other"])
    for (let n = 0; n < 15; n++) await activity.hint({ tenant, parentId: `p${n}`, uid: newUid() }, 60_000);
  const seen: string[] = [];
  const cursors: (string | undefined)[] = ["0"];
  while (cursors.at(-1) !== undefined) {
    const { body } = await door.ask("GET", `/v1/parents?limit=7&after=${cursors.at(-1)}`, { token });
    seen.push(...body.parents.map(({ parent_id }: { parent_id: string }) => parent_id));
    cursors.push(body.cursor);
  }
  expect(seen.toSorted()).toEqual(Array.from({ length: 15 }, (_, n) => `p${n}`).toSorted());
  expect(cursors).toEqual(["0", "7", "14", undefined]);
  // The last page is full: it names no page after it.
  const { body } = await door.ask("GET", "/v1/parents?limit=5&after=10", { token });
  expect(body).toMatchObject({ parents: { length: 5 } });
  expect(body).not.toHaveProperty("cursor");
});

test("a parent whose data cannot be read is named with the reason, and hides no other parent", async () => {
  const mixed = await openStage();
  const door = await startApi({ client: mixed.client() });
  const { redis, keys } = mixed;
  for (const name of ["sound", "channel", "live", "usage"]) await mixed.parent(name).spawn({ name: "idler" });
  const keysOf = (parentId: string) => keys.parent({ tenant: "default", parentId });
  await redis.set(keysOf("channel").replies, "of the wrong kind");
  await redis.del(keysOf("live").live);
  await redis.set(keysOf("live").live, "of the wrong kind");
  await redis.hset(keysOf("usage").usage, `${Math.floor(Date.now() / 86_400_000)}/turns`, "many");
  const { status, body } = await door.ask("GET", "/v1/parents");
  expect(status).toBe(200);
  expect(body.parents).toMatchObject([{ parent_id: "sound", live: { idle: 1 } }]);
  expect(body.unreadable.map(({ parent_id }: { parent_id: string }) => parent_id).sort()).toEqual([
    "channel",
    "live",
    "usage",
  ]);
  for (const { problem } of body.unreadable) expect(problem).toMatch(/WRONGTYPE|expected number/);
});

test("a record of another type hides none of its parent's other agents", async () => {
  const mixed = await openStage();
  const door = await startApi({ client: mixed.client() });
  const [broken, sound] = [await mixed.spawn(), await mixed.spawn()];
  await mixed.redis.del(mixed.keys.agent(broken).record);
  await mixed.redis.set(mixed.keys.agent(broken).record, "of the wrong kind");
  const { body } = await door.ask("GET", "/v1/parents/parent-0/agents");
  expect(body.sub_agents).toMatchObject([{ agent_id: sound.agentId }]);
});

test.for(["limit=0", "limit=101", "after=-1", "after=x", "since=1"])("%s is refused", async (query) => {
  expect(await api.ask("GET", `/v1/parents?${query}`)).toMatchObject({
    status: 400,
    body: { code: "invalid_input" },
  });
});
