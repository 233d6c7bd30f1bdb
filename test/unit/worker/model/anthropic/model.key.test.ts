import { expect, test } from "vitest";
import { createAnthropicModel } from "../../../../../src/worker/model/anthropic/model.ts";
import { answer, ask, connect, hold, startProvider, stream } from "../scripted-provider.ts";

test.each([
  ["a typographic character, as some programs make of others", "sk-test\u20130123456789"],
  ["a line end within", "sk-test-01234\n56789"],
  ["nothing but a blank", " "],
])("a key that no header can hold is refused at once and not shown: %s", (_, apiKey) => {
  expect(() => createAnthropicModel({ apiKey })).toThrow(/apiKey must be the key of the provider/);
  expect(() => createAnthropicModel({ apiKey })).not.toThrow(/56789/);
});

test("a key may end with the line end of the file that it was read from", async () => {
  const provider = await startProvider((response) => stream(response, answer()));
  const model = connect(provider, { apiKey: "sk-test-0123456789\n" });
  expect((await model.call(ask(), hold())).status).toBe("answer");
  expect(provider.received.map(({ headers }) => headers.authorization)).toEqual([
    "Bearer sk-test-0123456789",
  ]);
});
