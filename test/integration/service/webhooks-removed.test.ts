/** Guarantee: the removal of a webhook is answered when it is done. */
import { expect, test } from "vitest";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

test("a webhook is removed once: a second removal says that there is none", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client() });
  const webhook = "/v1/parents/planner/webhook";
  await api.ask("PUT", webhook, { body: { url: "https://example.com/hook" } });
  expect((await api.ask("DELETE", webhook)).status).toBe(204);
  const none = { status: 404, body: { code: "unknown_webhook" } };
  expect(await api.ask("DELETE", webhook)).toMatchObject(none);
  expect(await api.ask("GET", webhook)).toMatchObject(none);
});
