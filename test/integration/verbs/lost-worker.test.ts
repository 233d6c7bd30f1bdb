/** A claim that finds the lease of the last holder expired tells who that was. */
import { expect, test } from "vitest";
import type { AgentAddress } from "../../../src/shared/protocol/keys.ts";
import { readTimeline } from "../../../src/shared/redis/events.ts";
import { type Rig, verbRig } from "./rig.ts";

/** The holder's lease runs out. */
async function dies(rig: Rig, agent: AgentAddress): Promise<void> {
  await rig.redisReaches(Number((await rig.raw(agent)).lease_until) + 1);
}

test("a worker that is gone is told once, by the claim that finds it: also where that must leave the run to others", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const told = async (agent: AgentAddress) =>
    (await readTimeline(rig.redis, rig.keys, agent)).flatMap(({ events }) =>
      events.map((event) => [event.type, "worker" in event ? event.worker : undefined]),
    );
  const { agent } = await rig.running();
  expect(await told(agent)).toEqual([]);
  await dies(rig, agent);
  const input = { claim_id: "c-2", worker: "worker-2" };
  expect(await rig.store.claim(agent, input)).toMatchObject({ status: "claimed", lost_worker: "worker-1" });
  expect(await rig.store.claim(agent, input)).toMatchObject({ status: "claimed", lost_worker: undefined });
  expect(await told(agent)).toEqual([["worker_lost", "worker-1"]]);
  await dies(rig, agent);
  for (const claimId of ["c-3", "c-4"]) {
    const suspect = await rig.store.claim(agent, { claim_id: claimId, worker: "worker-3" });
    expect(suspect.status).toBe("suspect");
  }
  expect(await rig.claim(agent, "c-5", "own_worker")).toBeGreaterThan(0);
  expect(await told(agent)).toEqual([
    ["worker_lost", "worker-1"],
    ["worker_lost", "worker-2"],
  ]);
});
