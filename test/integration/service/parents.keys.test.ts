/** Guarantee: a key sees the parents of its own tenant alone, and changes only what its scope allows. */
import { expect, test } from "vitest";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

test("each tenant's list has its own parents, and none of another tenant's", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client() });
  const apiKeys = createApiKeys(stage.redis, stage.keys);
  const tokens = new Map<string, string>();
  for (const tenant of ["acme", "initech"])
    tokens.set(tenant, (await apiKeys.create({ tenant, name: "service", scope: "spawn" })).token);
  for (const [tenant, token] of tokens)
    await api.ask("POST", `/v1/parents/planner-of-${tenant}/agents`, { token, body: { name: "a" } });
  for (const [tenant, token] of tokens) {
    const { body } = await api.ask("GET", "/v1/parents", { token });
    expect(body.parents).toMatchObject([{ parent_id: `planner-of-${tenant}`, live: { idle: 1 } }]);
  }
});

test("a key that may only read sees a parent's profile and webhook, and changes neither", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client() });
  const apiKeys = createApiKeys(stage.redis, stage.keys);
  const { token } = await apiKeys.create({ tenant: "acme", name: "dashboard", scope: "read" });
  const spawner = await apiKeys.create({ tenant: "acme", name: "service", scope: "spawn" });
  const webhook = "/v1/parents/planner/webhook";
  const body = { url: "https://example.com/hook" };
  expect((await api.ask("PUT", webhook, { token: spawner.token, body })).status).toBe(200);
  for (const path of [webhook, "/v1/parents/planner", "/v1/parents"])
    expect((await api.ask("GET", path, { token })).status, path).toBe(200);
  expect((await api.ask("PUT", webhook, { token, body })).status).toBe(403);
  expect((await api.ask("DELETE", webhook, { token })).status).toBe(403);
  expect((await api.ask("GET", webhook, { token })).body).toMatchObject(body);
  for (const each of [token, spawner.token])
    expect((await api.ask("PUT", "/v1/parents/planner", { token: each, body: {} })).status).toBe(403);
});
