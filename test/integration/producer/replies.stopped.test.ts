/** Guarantee: a reader of the present entries of a channel ends with its parent, also if the client is shared. */
import { expect, test } from "vitest";
import { testClient, testParent } from "../../helpers/parents.ts";

test("a parent that stops amid its present entries gives no further one, and they stay in the channel", async () => {
  const client = testClient();
  const parent = testParent(client);
  for (const name of ["a", "b"]) {
    await parent.spawn({ name });
    await parent.destroy(name);
  }
  const present = parent.replies({ follow: false });
  expect(await present.next()).toMatchObject({ value: { agent_id: "a" } });
  await parent.stop();
  expect(await present.next()).toEqual({ done: true, value: undefined });
  expect((await testParent(client).newReplies()).entries).toHaveLength(2);
});
