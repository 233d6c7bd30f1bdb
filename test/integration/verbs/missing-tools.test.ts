/** Claims of an agent whose tools a worker has, or lacks; what a worker that lacks them leaves behind. */
import { expect, test } from "vitest";
import type { AgentAddress } from "../../../src/shared/protocol/keys.ts";
import { readTimeline } from "../../../src/shared/redis/events.ts";
import { messageOf, type Rig, SPEC, verbRig } from "./rig.ts";

/** A queued agent with these tools. */
async function agentThatNeeds(rig: Rig, needs_tools: string[]): Promise<AgentAddress> {
  const agent = rig.address();
  const spawned = await rig.store.spawn(agent, {
    ...{ request_key: agent.uid, digest: "d", stem: "deployer", name: "Deployer", idle_ms: 60_000 },
    ...{ spec: JSON.stringify(SPEC), message: JSON.stringify(messageOf("go")), needs_tools },
  });
  expect(spawned.status).toBe("spawned");
  return agent;
}

const claimWith = (rig: Rig, agent: AgentAddress, claim_id: string, offered_tools: string[]) =>
  rig.store.claim(agent, { claim_id, worker: `worker of ${claim_id}`, offered_tools });

const toldOf = async (rig: Rig, agent: AgentAddress) =>
  (await readTimeline(rig.redis, rig.keys, agent)).flatMap(({ events }) =>
    events.map((event) => [event.type, "tools" in event ? event.tools : undefined]),
  );

test.for([["query-db"], ["skill:brain-surgery"], ["%a", "a.b", "^x$", "[y]"]])(
  "a worker that has %j gets the agent that needs it, and one with a similar name does not",
  async (tools) => {
    const rig = verbRig();
    const agent = await agentThatNeeds(rig, tools);
    const similar = ["querydb", "skill:brainsurgery", "b", "axb", "x", "y"];
    expect(await claimWith(rig, agent, "c-1", similar)).toMatchObject({ status: "missing_tools", tools });
    expect(await claimWith(rig, agent, "c-2", tools)).toMatchObject({ status: "claimed" });
  },
);

test("that a run waits for tools is told once", async () => {
  const rig = verbRig();
  const agent = await agentThatNeeds(rig, ["deploy", "bash"]);
  await claimWith(rig, agent, "c-1", ["bash"]);
  await claimWith(rig, agent, "c-2", []);
  expect(await toldOf(rig, agent)).toEqual([["waiting_for_tools", ["deploy"]]]);
});

test("a run whose worker died is queued by the worker that lacks its tools: the crash counts once", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const agent = await agentThatNeeds(rig, ["deploy"]);
  await claimWith(rig, agent, "c-1", ["deploy"]);
  const { epoch, lease_until } = await rig.raw(agent);
  await rig.redisReaches(Number(lease_until) + 1);
  for (const claimId of ["c-2", "c-3"])
    expect(await claimWith(rig, agent, claimId, [])).toMatchObject({ status: "missing_tools" });
  const left = await rig.raw(agent);
  expect(left).toMatchObject({ status: "queued", epoch, crashes_without_progress: "1" });
  expect(left).not.toHaveProperty("lease_until");
  expect((await toldOf(rig, agent)).map(([type]) => type)).toEqual(["waiting_for_tools", "worker_lost"]);
});
