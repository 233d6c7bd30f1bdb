/** Guarantee: a crash that nobody saw makes a run that is only in doubt no suspect. */
import { expect, test } from "vitest";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import { verbRig } from "./rig.ts";

test("a worker that dies with its process of suspects counts as one crash of a run in doubt, as outside of one", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  for (const isolation of ["group", undefined] as const) {
    const agent = await rig.queued();
    const claim = async (how: { isolation?: "group" | undefined; can_isolate?: boolean }) => {
      const answer = await rig.store.claim(agent, { claim_id: newRequestKey(), worker: "w", ...how });
      expect(answer.status, isolation).toBe("claimed");
    };
    await claim({ isolation });
    await rig.redisReaches(Number((await rig.raw(agent)).lease_until));
    await claim({ can_isolate: true });
    const { crashes_without_progress, isolated_crashes = "0" } = await rig.raw(agent);
    expect({ crashes_without_progress, isolated_crashes }, isolation).toEqual({
      crashes_without_progress: "1",
      isolated_crashes: "0",
    });
  }
});
