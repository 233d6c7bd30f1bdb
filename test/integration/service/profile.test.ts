/** The profile of a parent over HTTP: who may register it, and that it holds for what comes through every other door. */
import { beforeAll, expect, test } from "vitest";
import { createApiKeys, type Scope } from "../../../src/shared/redis/api-keys.ts";
import { startApi, type TestApi } from "../../helpers/api.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const PARENT = "/v1/parents/planner-7";
let stage: Stage;
let api: TestApi;

beforeAll(async () => {
  stage = await openStage();
  api = await startApi({ client: stage.client() });
});

test("is registered and read, and is in force for the API and for the library", async () => {
  expect((await api.ask("GET", PARENT)).body).toEqual({ parent_id: "planner-7", version: 0, profile: {} });
  const body = { tools: ["Read"], limits: { max_turns: 5 }, system: null };
  const put = await api.ask("PUT", PARENT, { body });
  expect(put).toMatchObject({
    status: 200,
    body: { version: 1, changed: true, profile: { tools: ["read_file"] } },
  });
  expect((await api.ask("PUT", PARENT, { body })).body).toMatchObject({ version: 1, changed: false });
  const { changed: _, ...view } = put.body;
  expect((await api.ask("GET", PARENT)).body).toEqual(view);
  const spawned = await api.ask("POST", `${PARENT}/agents`, { body: { name: "a" } });
  expect(spawned.body).toMatchObject({ limits: { max_turns: 5 }, in_force: { profile_version: 1 } });
  const wider = await api.ask("POST", `${PARENT}/tasks`, {
    body: { prompt: "go", limits: { max_turns: 6 } },
  });
  expect(wider).toMatchObject({ status: 400, body: { code: "invalid_input" } });
  expect((await stage.parent().spawn({ name: "b" })).in_force).toMatchObject({ profile_version: 1 });
});

test("every body takes null for a field that may be left out, and for none that must be there", async () => {
  const path = "/v1/parents/nulls";
  const spawned = await api.ask("POST", `${path}/agents`, {
    body: { name: "a", description: null, model: null, tools: null, limits: null, request_key: null },
  });
  expect(spawned.status).toBe(201);
  const message = { text: "go", message_id: null };
  expect((await api.ask("POST", `${path}/agents/a/messages`, { body: message })).status).toBe(202);
  expect((await api.ask("POST", `${path}/tasks`, { body: { prompt: null } })).body).toMatchObject({
    code: "invalid_input",
    detail: expect.stringMatching(/prompt: is missing/),
  });
});

test("a key that may spawn reads it, and may not widen it", async () => {
  const keyed = await openStage();
  const door = await startApi({ client: keyed.client() });
  const keys = createApiKeys(keyed.redis, keyed.keys);
  const token = async (scope: Scope) => (await keys.create({ tenant: "acme", name: scope, scope })).token;
  const [spawn, admin] = [await token("spawn"), await token("admin")];
  const body = { limits: { max_turns: 5 } };
  expect(await door.ask("PUT", PARENT, { body, token: spawn })).toMatchObject({
    status: 403,
    body: { code: "forbidden" },
  });
  expect((await door.ask("PUT", PARENT, { body, token: admin })).status).toBe(200);
  expect((await door.ask("GET", PARENT, { token: spawn })).body).toMatchObject({ version: 1, profile: body });
});

test("a task that is sent again with its key after the profile was narrowed is answered, and one without it refused", async () => {
  const path = "/v1/parents/narrowed";
  const body = { prompt: "go", limits: { max_turns: 9 } };
  const headers = { "idempotency-key": "order-1" };
  const first = await api.ask("POST", `${path}/tasks`, { body, headers });
  expect(first.status).toBe(202);
  await api.ask("PUT", path, { body: { limits: { max_turns: 5 } } });
  const again = await api.ask("POST", `${path}/tasks`, { body, headers });
  expect(again).toMatchObject({ status: 202, body: { ...first.body, known: true } });
  expect((await api.ask("POST", `${path}/tasks`, { body })).status).toBe(400);
});
