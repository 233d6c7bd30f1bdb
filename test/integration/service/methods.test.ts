/** Guarantee: an address that is only read says so to every other method; it does not say that there is nothing. */
import { expect, test } from "vitest";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

test("an address that is only read takes GET and HEAD, and names both to any other method", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client() });
  for (const path of ["/", "/page.js", "/docs", "/openapi.json", "/healthz", "/readyz", "/metrics"]) {
    expect((await fetch(api.url + path, { method: "HEAD" })).status, path).toBe(200);
    const { status, body, headers } = await api.ask("POST", path);
    expect([status, body.code, body.detail], path).toEqual([
      405,
      "method_not_allowed",
      "POST is not answered here: use GET.",
    ]);
    expect(headers.get("allow"), path).toBe("GET, HEAD");
  }
  const { status, body, headers } = await api.ask("PATCH", "/v1/parents/planner-7");
  expect([status, body.detail]).toEqual([405, "PATCH is not answered here: use PUT or GET."]);
  expect(headers.get("allow")).toBe("PUT, GET, HEAD");
  expect((await api.ask("POST", "/nothing")).status).toBe(404);
});
