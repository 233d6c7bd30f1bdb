/** Guarantee: a key sees the parents of its own tenant alone, and one that may only read may read all of it. */
import { expect, test } from "vitest";
import { agentRoutes } from "../../../src/service/api/routes/agents.ts";
import { eventRoutes } from "../../../src/service/api/routes/events.ts";
import { parentRoutes } from "../../../src/service/api/routes/parents.ts";
import { replyRoutes } from "../../../src/service/api/routes/replies.ts";
import { taskRoutes } from "../../../src/service/api/routes/tasks.ts";
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

test("a key that may only read is refused by no route that changes nothing", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client() });
  const apiKeys = createApiKeys(stage.redis, stage.keys);
  const { token } = await apiKeys.create({ tenant: "acme", name: "dashboard", scope: "read" });
  const reading = [taskRoutes, agentRoutes, parentRoutes, replyRoutes, eventRoutes]
    .flat()
    .filter(({ method }) => method === "get");
  expect(reading.length).toBeGreaterThan(8);
  const headers = { authorization: `Bearer ${token}` };
  for (const { path } of reading) {
    // A stream of events has no end: its headers tell.
    const leaving = new AbortController();
    const there = api.url + path.replace(/\{\w+\}/g, "x");
    const { status } = await fetch(there, { headers, signal: leaving.signal });
    leaving.abort();
    expect([200, 404], path).toContain(status);
  }
});
