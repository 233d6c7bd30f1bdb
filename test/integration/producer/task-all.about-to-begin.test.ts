/** Guarantee: after the first refusal no further task of a batch begins, also none that was about to. */
import { expect, test } from "vitest";
import { contextOf } from "../../../src/producer/parent.ts";
import type { ParentContext } from "../../../src/producer/parent-context.ts";
import { taskAll } from "../../../src/producer/task.ts";
import { latch } from "../../helpers/latch.ts";
import { refusal, testClient, testParent } from "../../helpers/parents.ts";

test("a task that was about to begin when another one was refused begins no more, and the batch does not wait for it", async () => {
  const parent = testParent(testClient());
  await parent.spawn({ name: "earlier", request_key: "k" });
  const context = contextOf(parent);
  const mayOpen = latch();
  let opened = 0;
  const slow: ParentContext = {
    ...context,
    // The batch opens its client twice, then for its first task, then for its second one.
    async open() {
      opened += 1;
      if (opened === 4) await mayOpen.opened;
      return context.open();
    },
    onStop: (end) => context.onStop(end),
  };
  const batch = taskAll(slow, [{ prompt: "one", request_key: "k" }, "two"]);
  const refused = expect(batch).rejects.toMatchObject(refusal("conflict", /^inputs\[0\]: request_key "k"/));
  await parent.list();
  await parent.list();
  setImmediate(() => mayOpen.open());
  await refused;
  expect((await parent.list()).map(({ agent_id }) => agent_id)).toEqual(["earlier"]);
});
