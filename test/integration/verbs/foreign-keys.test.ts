/** A key whose value another program wrote keeps a verb from half of what it does; when the value is gone, all is as before. */
import { expect, test } from "vitest";
import type { AgentAddress } from "../../../src/shared/protocol/keys.ts";
import { type Rig, verbRig } from "./rig.ts";

/** Puts a text in the place of a key; the answer puts back what was there. */
async function mistype({ redis }: Rig, key: string): Promise<() => Promise<void>> {
  const aside = `${key}-aside`;
  if ((await redis.exists(key)) === 1) await redis.rename(key, aside);
  await redis.set(key, "foreign");
  return async () => {
    await redis.del(key);
    if ((await redis.exists(aside)) === 1) await redis.rename(aside, key);
  };
}

/** The call fails and changes nothing while the key has the wrong type. */
async function changesNothing(rig: Rig, key: string, call: () => Promise<unknown>): Promise<void> {
  const putBack = await mistype(rig, key);
  const before = await rig.everything();
  for (let n = 0; n < 3; n += 1) await expect(call()).rejects.toThrow("WRONGTYPE");
  expect(await rig.everything()).toEqual(before);
  await putBack();
}

const claimWith = (rig: Rig, agent: AgentAddress) =>
  rig.store.claim(agent, { claim_id: `c-${Math.random()}`, worker: "worker-2" });

test.for(["log", "inbox"] as const)(
  "a claim that cannot read the %s leaves the agent queued, without a holder and a crash",
  async (name) => {
    const rig = verbRig();
    const agent = await rig.queued();
    await changesNothing(rig, rig.keys.agent(agent)[name], () => claimWith(rig, agent));
    expect(await claimWith(rig, agent)).toMatchObject({ status: "claimed" });
    expect(await rig.raw(agent)).toMatchObject({ crashes_without_progress: "0" });
  },
);

test.for(["log", "inbox"] as const)(
  "a claim that finds a dead worker and cannot read the %s counts one crash, when it can",
  async (name) => {
    const rig = verbRig({ timing: { leaseMs: 2 } });
    const { agent } = await rig.running();
    await rig.redisReaches(Number((await rig.raw(agent)).lease_until) + 1);
    await changesNothing(rig, rig.keys.agent(agent)[name], () => claimWith(rig, agent));
    expect(await claimWith(rig, agent)).toMatchObject({ status: "claimed", lost_worker: "worker-1" });
    expect(await rig.raw(agent)).toMatchObject({ crashes_without_progress: "1" });
  },
);

test("a renewal that cannot read the inbox extends no lease", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const renew = () => rig.store.renew(agent, { epoch, running_ms: 7 });
  await changesNothing(rig, rig.keys.agent(agent).inbox, renew);
  expect(await renew()).toMatchObject({ status: "ok" });
  expect(await rig.raw(agent)).toMatchObject({ running_ms: "7" });
});
