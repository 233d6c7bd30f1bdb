/** Guarantee: a HEAD needs no other key than its GET, also where a browser sends the key. */
import { expect, test } from "vitest";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

test("basic authentication opens the HEAD of what it opens to a GET, and nothing else", async () => {
  const stage = await openStage();
  const { token } = await createApiKeys(stage.redis, stage.keys).create({
    ...{ tenant: "acme", name: "operator", scope: "admin" },
  });
  const api = await startApi({ client: stage.client() });
  const authorization = `Basic ${Buffer.from(`operator:${token}`).toString("base64")}`;
  const statusOf = async (path: string) =>
    (await fetch(api.url + path, { method: "HEAD", headers: { authorization } })).status;
  expect([await statusOf("/metrics"), await statusOf("/v1/parents")]).toEqual([200, 401]);
});
