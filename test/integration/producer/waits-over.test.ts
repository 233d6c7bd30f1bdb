/** A wait that is over costs nothing more. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { SLOW_POLL_MS } from "../../../src/producer/subscriber.ts";
import { holdingBack } from "../../helpers/latch.ts";
import { started, testParent } from "../../helpers/parents.ts";
import { openStage } from "../../stage/stage.ts";

test("the agents that did not end first are looked at no more, however often a parent waits for any of them", async () => {
  const stage = await openStage();
  const slowTick = holdingBack(SLOW_POLL_MS);
  const client = await started(stage.client({ clock: slowTick.clock }));
  const [parent, worker] = [testParent(client), stage.scriptedWorker()];
  for (const name of ["a", "b"]) {
    await parent.spawn({ name });
    await parent.send(name, "go");
  }
  const next = parent.replies().next();
  const first = parent.waitAny(["a", "b"]);
  await worker.run("a");
  await first;
  const { store } = await internalsOf(client).open();
  const { runState } = store;
  let looks = 0;
  store.runState = (...asked) => {
    looks += 1;
    return runState(...asked);
  };
  await worker.run("b", { unheard: true });
  // The slow tick finds it for the reader, and looks at each wait.
  slowTick.release();
  expect((await next).value).toMatchObject({ agent_id: "b" });
  expect(looks).toBe(0);
});
