/** Guarantee: a run that waits for something it does not need in order to end does not wait any more once it is asked to finish. */
import { expect, test } from "vitest";
import type { AgentAddress } from "../../../src/shared/protocol/keys.ts";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import { bodyOf, messageOf, type Rig, SPEC, verbRig } from "./rig.ts";

/** A queued agent that needs these. */
async function agentThatNeeds(rig: Rig, needs_tools: string[]): Promise<AgentAddress> {
  const agent = rig.address();
  await rig.store.spawn(agent, {
    ...{ request_key: agent.uid, digest: "d", stem: "deployer", name: "Deployer", idle_ms: 60_000 },
    ...{ spec: JSON.stringify(SPEC), message: JSON.stringify(messageOf("go")), needs_tools },
  });
  return agent;
}

const claimWith = async (rig: Rig, agent: AgentAddress, claim_id: string, offered_tools: string[]) =>
  (await rig.store.claim(agent, { claim_id, worker: "worker-1", offered_tools })).status;

test("a run whose tools no worker has is woken anew by a finish, once, and any worker may end it", async () => {
  const rig = verbRig();
  const agent = await agentThatNeeds(rig, ["deploy", "skill:notes", "hook:audit"]);
  expect(await claimWith(rig, agent, "c-1", [])).toBe("missing_tools");
  expect(await rig.store.finish(agent)).toMatchObject({ status: "finishing", wake: 2 });
  expect(await rig.raw(agent)).not.toHaveProperty("tools_since");
  expect(await rig.store.finish(agent)).toMatchObject({ status: "finishing", wake: 2 });
  expect(await claimWith(rig, agent, "c-2", [])).toBe("claimed");
});

test("a run that has said something still waits for the hooks that it names: one of them may refuse its reply", async () => {
  const rig = verbRig();
  const agent = await agentThatNeeds(rig, ["deploy", "hook:audit"]);
  const claimed = await rig.store.claim(agent, {
    claim_id: "c-1",
    worker: "w",
    offered_tools: ["deploy", "hook:audit"],
  });
  const epoch = claimed.status === "claimed" ? claimed.epoch : 0;
  const said = { entries: [["1", "{}"]] as const, ...partsOf(bodyOf("so far")) };
  expect(await rig.store.append(agent, { epoch, known: 0, running_ms: 1, ...said })).toMatchObject({
    status: "appended",
  });
  await rig.store.release(agent, { epoch, running_ms: 1, attempts: 0, delay_ms: 0 });
  await rig.store.finish(agent);
  expect(await claimWith(rig, agent, "c-2", ["deploy"])).toBe("missing_tools");
  const { tools_since, wake } = await rig.raw(agent);
  // Asked once more, it waits no longer than it would have.
  expect(await rig.store.finish(agent)).toMatchObject({ status: "finishing", wake: Number(wake) });
  expect(await rig.raw(agent)).toMatchObject({ tools_since, wake });
  expect(await claimWith(rig, agent, "c-3", ["hook:audit"])).toBe("claimed");
});

test("a run that waits for its provider is woken at once by a finish", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const epoch = await rig.claim(agent);
  await rig.store.release(agent, {
    epoch,
    running_ms: 1,
    attempts: 1,
    delay_ms: 60_000,
    provider_wait: '{"provider":"p","reason":"overloaded"}',
  });
  expect(await claimWith(rig, agent, "c-2", [])).toBe("held");
  expect(await rig.store.finish(agent)).toMatchObject({ status: "finishing", wake: 3 });
  expect(await claimWith(rig, agent, "c-2", [])).toBe("claimed");
});
