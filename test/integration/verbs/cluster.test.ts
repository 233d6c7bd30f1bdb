/** The verbs on a server in cluster mode, which refuses a command or script whose keys lie in two slots. */

import { beforeAll, expect, test } from "vitest";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import { keyNames } from "../../helpers/key-names.ts";
import { startPrivateRedis } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { bodyOf, DESTROY, handedBack, IDLE_END, verbRig } from "./rig.ts";

let url: string;
beforeAll(async () => {
  const server = await startPrivateRedis({ arguments: ["--cluster-enabled", "yes"] });
  url = server.url;
  const { redis } = verbRig({ url });
  await redis.call("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
  await until(async () => String(await redis.call("CLUSTER", "INFO")).includes("cluster_state:ok"));
});

test("a whole life crosses no slot: every script finds all its keys under one hash tag", async () => {
  const rig = verbRig({ url, timing: { leaseMs: 5, checkMs: 2 } });
  await expect(rig.redis.mget("a", "b"), "the server does refuse two slots").rejects.toThrow("CROSSSLOT");
  const { agent, epoch } = await rig.running();
  await rig.deadlines.hint(agent, 0);
  const [due] = await rig.deadlines.due(1, 1);
  await rig.redisReaches(Number((await rig.raw(agent)).deadline));
  await rig.store.overdue(agent);
  await rig.store.requeue(agent, { expected_wake: 1 });
  await rig.store.renew(agent, { epoch, running_ms: 1 });
  await rig.readFirst(agent, epoch, {
    ...partsOf(bodyOf("p")),
    run: 1,
    whole_text: "whole",
    advances: true,
    interim_id: "i",
    interim: "b",
  });
  await rig.store.release(agent, { epoch, delay_ms: 0, running_ms: 1, attempts: 0 });
  await rig.store.finish(agent);
  const second = await rig.claim(agent);
  const settled = await rig.store.settle(agent, handedBack(second));
  expect(settled).toMatchObject({ status: "settled", agent_status: "ended" });
  for (const entry of await rig.replies.read(rig.parent, "0", 9))
    expect(await rig.replies.ack(rig.parent, entry, "t")).toBe(true);
  if (due) await rig.deadlines.move([{ due, at: undefined }]);
  for (let i = 0; i < 10; i += 1) await rig.spawn({ idleMs: 1 });
  await rig.redisReaches((await rig.redisNow()) + 3);
  const refused = await rig.store.spawn(rig.address(), {
    request_key: "k",
    digest: "d",
    stem: "x",
    name: "x",
    spec: "{}",
    idle_ms: 1,
  });
  const overdue = refused.status === "quota" ? refused.overdue : [];
  expect(overdue).toHaveLength(10);
  for (const uid of overdue)
    expect(await rig.store.settle({ ...rig.parent, uid }, IDLE_END)).toMatchObject({ status: "settled" });
  expect(await rig.store.settle(agent, DESTROY)).toMatchObject({ status: "same" });
});

test("all keys of a parent lie in one slot, whatever stands in request keys and message ids", async () => {
  const rig = verbRig({ url });
  const agent = rig.address();
  const odd = "{other}{/}:{default/planner-7x}";
  const names = [rig.keys.parent(rig.parent), rig.keys.agent(agent)].flatMap((keys) => keyNames(keys, odd));
  const slots = await Promise.all(names.map((name) => rig.redis.call("CLUSTER", "KEYSLOT", name)));
  expect(names).toHaveLength(27);
  expect(new Set(slots).size).toBe(1);
});

test("parents spread over the slots, and what all workers share lies in one of its own", async () => {
  const rig = verbRig({ url });
  const keys = keysUnder("saq");
  const slotOf = (name: string) => rig.redis.call("CLUSTER", "KEYSLOT", name);
  const slots = await Promise.all(
    Array.from({ length: 100 }, (_, i) => slotOf(keys.parent({ tenant: "default", parentId: `p${i}` }).live)),
  );
  expect(new Set(slots).size).toBeGreaterThan(90);
  expect(await slotOf(keys.deadlines)).toBe(await slotOf(`${keys.bullPrefix}:${keys.wakeQueue}:wait`));
});
