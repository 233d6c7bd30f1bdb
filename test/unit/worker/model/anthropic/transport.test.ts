import { expect, test } from "vitest";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { until } from "../../../../helpers/until.ts";
import { answer, ask, connect, hold, startProvider, stream } from "../scripted-provider.ts";

test("a call that begins after all others have ended is timed as the first one was", async () => {
  const clock = handClock();
  const provider = await startProvider((response, { headers }) => {
    if (headers["idempotency-key"] === "answered") stream(response, answer());
  });
  const model = connect(provider, { clock, firstByteTimeoutMs: 10_000 });
  for (let earlier = 0; earlier < 2; earlier++) {
    expect((await model.call(ask({ purchaseId: "answered" }), hold())).status).toBe("answer");
    clock.advance(1_000);
  }
  const silent = model.call(ask({ purchaseId: "silent" }), hold());
  await until(() => provider.received.length === 3);
  expect(clock.pending).toBe(1);
  clock.advance(10_000);
  expect(await silent).toMatchObject({ status: "failed", failure: { kind: "timeout" } });
});

test.each([
  ["", "/v1/messages"],
  ["/", "/v1/messages"],
  ["/gateway", "/gateway/v1/messages"],
  ["/gateway/", "/gateway/v1/messages"],
])("an address that ends with %j is asked at %s", async (end, path) => {
  const provider = await startProvider((response) => stream(response, answer()));
  const model = connect({ baseUrl: provider.baseUrl + end });
  expect((await model.call(ask(), hold())).status).toBe("answer");
  expect(provider.received.map(({ url }) => url)).toEqual([path]);
});
