/** Guarantee: the signal of a reader of the present entries of a channel ends it. */
import { expect, test } from "vitest";
import { testClient, testParent } from "../../helpers/parents.ts";

test("a reader that is aborted amid the present entries gives no further one, and they stay in the channel", async () => {
  const parent = testParent(testClient());
  for (const name of ["a", "b"]) {
    await parent.spawn({ name });
    await parent.destroy(name);
  }
  const enough = new AbortController();
  const present = parent.replies({ follow: false, signal: enough.signal });
  expect(await present.next()).toMatchObject({ value: { agent_id: "a" } });
  enough.abort();
  expect(await present.next()).toEqual({ done: true, value: undefined });
  expect((await parent.newReplies()).entries).toHaveLength(2);
});
