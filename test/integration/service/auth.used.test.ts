/** Guarantee: `keys list` shows when a key was last used, so that an operator knows which of two is safe to revoke. */
import { expect, test } from "vitest";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { startApi } from "../../helpers/api.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { programOn } from "../../helpers/program-on-stage.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("of two keys of a name, the list shows which one a program uses, and forgets it at last", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client() });
  const keys = createApiKeys(stage.redis, stage.keys);
  const first = await keys.create({ tenant: "acme", name: "backend", scope: "spawn" });
  const second = await keys.rotate(first.key_id);
  const agents = "/v1/parents/planner-7/agents";
  expect((await api.ask("GET", agents, { token: second.token })).status).toBe(200);
  expect((await api.ask("GET", agents, { token: first.token.replace(/.$/, "-") })).status).toBe(401);
  const used = stage.keys.apiKeyUsed(second.key_id);
  await until(async () => (await stage.redis.exists(used)) === 1);
  const listed = await keys.list();
  const usedAt = new Map(listed.map(({ key_id, last_used_at }) => [key_id, last_used_at]));
  expect(usedAt.get(first.key_id)).toBeUndefined();
  expect(usedAt.get(second.key_id)).toMatch(/^\d{4}-.*Z$/);
  const shown = (await programOn(stage)("keys", "list")).stdout.map((line) => line.split(/ {2,}/));
  expect(shown.map((cells) => cells[5])).toEqual(["last used", "-", usedAt.get(second.key_id)]);
  const keptMs = await stage.redis.pttl(used);
  expect(keptMs).toBeGreaterThan(89 * 86_400_000);
  expect(keptMs).toBeLessThanOrEqual(90 * 86_400_000);
});

test("an event stream uses its key as long as it is open", async () => {
  const stage = await openStage();
  const clock = handClock();
  const api = await startApi({ client: stage.client(), clock });
  const created = { tenant: "acme", name: "dashboard", scope: "read" } as const;
  const { key_id, token } = await createApiKeys(stage.redis, stage.keys).create(created);
  const left = new AbortController();
  const headers = { authorization: `Bearer ${token}`, accept: "text/event-stream" };
  const { signal } = left;
  expect((await fetch(`${api.url}/v1/parents/planner-7/events`, { headers, signal })).status).toBe(200);
  const used = stage.keys.apiKeyUsed(key_id);
  // Each time it is looked at, it is a minute later.
  for (const _ of ["the request", "the stream"]) {
    await until(async () => (await stage.redis.del(used)) === 1);
    clock.advance(60_000);
  }
  left.abort();
});
