/** Guarantee: a run that was handed back for later is told to finish at once, and not when its delay is over. */
import { expect, test } from "vitest";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import { verbRig } from "./rig.ts";

test("a finish gives a run that waits for its provider a new wake, which is free at once", async () => {
  const { store, queued, claim, everything } = verbRig();
  const agent = await queued();
  const waits = { provider_wait: '{"provider":"p","reason":"overloaded"}' };
  const released = await store.release(agent, {
    ...{ delay_ms: 3_600_000, running_ms: 1, attempts: 1, ...waits },
    epoch: await claim(agent),
  });
  if (released.status !== "released") return expect.unreachable();
  const wake = released.wake + 1;
  expect(await store.finish(agent, {})).toEqual({ status: "finishing", run: 1, wake });
  const stands = await everything();
  expect(await store.finish(agent, {})).toEqual({ status: "finishing", run: 1, wake });
  expect(await everything()).toEqual(stands);
  const claimed = await store.claim(agent, { claim_id: newRequestKey(), worker: "w" });
  expect(claimed).toMatchObject({ status: "claimed", run: 1 });
});
