import { expect, test } from "vitest";
import { answer, ask, connect, hold, startProvider, stream } from "../scripted-provider.ts";

test("a call whose deadline is over before it begins leaves no byte, also where a connection is open: its prompt would be paid for", async () => {
  const provider = await startProvider((response) => stream(response, answer()));
  const model = connect(provider);
  expect((await model.call(ask(), hold())).status).toBe("answer");
  const late = hold({ deadlineMs: performance.now() - 1 });
  expect(await model.call(ask(), late)).toEqual({ status: "aborted" });
  expect((await model.call(ask(), hold())).status).toBe("answer");
  expect(provider.received).toHaveLength(2);
});
