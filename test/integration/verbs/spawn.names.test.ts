/** The registry of a parent's names: one spawn in eight deletes a few names that no agent has any more. */
import { expect, test } from "vitest";
import type { AgentAddress } from "../../../src/shared/protocol/keys.ts";
import { type Rig, SPEC, verbRig } from "./rig.ts";

/** One of the spawns that clear up, by its uid; `n` names it. */
const clearing = (rig: Rig, n: number): AgentAddress => ({
  ...rig.parent,
  uid: `sa-0${n.toString(16).padStart(23, "0")}`,
});

async function spawn(rig: Rig, agent: AgentAddress): Promise<void> {
  const input = { request_key: agent.uid, digest: "d", stem: "new", name: "New", idle_ms: 60_000 };
  expect(await rig.store.spawn(agent, { ...input, spec: JSON.stringify(SPEC) })).toMatchObject({
    status: "spawned",
  });
}

/** Registers these names in this order; an agent that is `there` has a record. */
async function register(rig: Rig, names: readonly string[], isThere: boolean): Promise<void> {
  const { registry } = rig.keys.parent(rig.parent);
  for (const name of names) {
    const agent = rig.address();
    await rig.redis.hset(registry, name, agent.uid);
    if (isThere) await rig.redis.hset(rig.keys.agent(agent).record, "agent_id", name);
  }
}

const namesOf = async (rig: Rig) => (await rig.redis.hkeys(rig.keys.parent(rig.parent).registry)).sort();
const numbered = (stem: string, count: number) => Array.from({ length: count }, (_, n) => `${stem}_${n + 2}`);

test("names without a record go, and counters whose newest name is gone; those of agents that are there stay", async () => {
  const rig = verbRig();
  const { registry } = rig.keys.parent(rig.parent);
  await register(rig, ["there", "more_2"], true);
  await register(rig, ["gone", "left", "left_2"], false);
  await rig.redis.hset(registry, { "#there": "1", "#more": "2", "#gone": "1", "#left": "3" });
  await spawn(rig, clearing(rig, 1));
  // The counter of a name that is deleted in the same step may go with it, or at the next look.
  await spawn(rig, clearing(rig, 2));
  expect(await namesOf(rig)).toEqual(["#more", "#new", "#there", "more_2", "new", "new_2", "there"]);
});

test("one spawn looks at 24 names; a spawn that is not one in eight deletes none", async () => {
  const rig = verbRig();
  await register(rig, numbered("gone", 60), false);
  await spawn(rig, { ...rig.parent, uid: `sa-2${"0".repeat(23)}` });
  expect(await namesOf(rig)).toHaveLength(62);
  await spawn(rig, clearing(rig, 1));
  const left = (await namesOf(rig)).filter((name) => name.startsWith("gone")).length;
  // Among the names that it looked at are at most the three of the new agents.
  expect(left).toBeGreaterThanOrEqual(36);
  expect(left).toBeLessThanOrEqual(39);
});

test("a garbled counter of a name starts again", async () => {
  const rig = verbRig();
  const { registry } = rig.keys.parent(rig.parent);
  // The last two let a search that believes them never end.
  for (const [n, garbled] of ["-5", "1e300", "0x", "nan", "inf"].entries()) {
    await rig.redis.hset(registry, "#new", garbled);
    await spawn(rig, { ...rig.parent, uid: `sa-f${n.toString(16).padStart(23, "0")}` });
  }
  const names = (await namesOf(rig)).filter((name) => name !== "#new");
  expect(names).toEqual(["new", ...numbered("new", 4)]);
});
