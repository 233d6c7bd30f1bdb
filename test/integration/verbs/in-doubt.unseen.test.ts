/** Guarantee: a crash that nobody saw makes a run in doubt no suspect, and takes a suspect out of the shared process. */
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

test("a suspect whose worker died with its process of suspects is put among others no more", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const agent = await rig.queued();
  await rig.redis.hset(rig.keys.agent(agent).record, "crashes_without_progress", 2);
  const claim = (isolation: "group" | "own_process") =>
    rig.store.claim(agent, { claim_id: newRequestKey(), worker: "w", isolation, can_isolate: true });
  expect((await claim("group")).status).toBe("claimed");
  await rig.redisReaches(Number((await rig.raw(agent)).lease_until));
  expect(await claim("group")).toMatchObject({ status: "suspect", crashes: 2, isolated_crashes: 1 });
  expect((await claim("own_process")).status).toBe("claimed");
});
