/** Which requests count against the limit of a key, and by which names an API may be called. */
import { get } from "node:http";
import { expect, test } from "vitest";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

const AGENTS = "/v1/parents/planner-7/agents";

test("a request that the scope of its key refuses counts like any other", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client(), requestsPerMinute: 3 });
  const keys = createApiKeys(stage.redis, stage.keys);
  const { token } = await keys.create({ tenant: "acme", name: "k", scope: "read" });
  const statuses: number[] = [];
  for (let n = 0; n < 4; n++)
    statuses.push((await api.ask("POST", AGENTS, { token, body: { name: "a" } })).status);
  expect(statuses).toEqual([403, 403, 403, 429]);
});

test("an API answers under the names that its operator gave it, and under no other", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client(), hostNames: ["agents.internal"] });
  const status = (host: string, path = "/healthz") =>
    new Promise<number | undefined>((resolve, reject) => {
      get(`${api.url}${path}`, { headers: { host } }, (response) => {
        response.resume();
        resolve(response.statusCode);
      }).on("error", reject);
    });
  const hosts = ["agents.internal", "other.internal", "10.1.2.3:8787"];
  // The last one is how a probe of Kubernetes or a load balancer calls.
  expect(await Promise.all(hosts.map((host) => status(host)))).toEqual([200, 403, 200]);
  expect(await Promise.all(hosts.map((host) => status(host, "/docs")))).toEqual([200, 403, 403]);
});
