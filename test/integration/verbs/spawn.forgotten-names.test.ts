/** Guarantee: names without a record leave a parent's registry also behind many names of agents that are there. */
import { expect, test } from "vitest";
import { SPEC, verbRig } from "./rig.ts";

const STEM = "new";

// Redis reads a small hash whole and in the order in which its fields came; a spawn looks at 24 of them.
test("ten names that came behind sixty of agents that are there leave with a hundred spawns that clear up", async () => {
  const { redis, keys, store, parent } = verbRig();
  const { registry, live } = keys.parent(parent);
  for (let n = 0; n < 60; n++) {
    const uid = `sa-f${n}`;
    await redis.hset(registry, `there_${n}`, uid);
    await redis.hset(keys.agent({ ...parent, uid }).record, "agent_id", `there_${n}`);
  }
  for (let n = 0; n < 10; n++) await redis.hset(registry, `gone_${n}`, `sa-e${n}`);
  for (let n = 0; n < 100; n++) {
    const uid = `sa-0${n.toString(16).padStart(23, "0")}`;
    const input = { request_key: uid, digest: "d", stem: STEM, name: "New", idle_ms: 60_000 };
    const answer = await store.spawn({ ...parent, uid }, { ...input, spec: JSON.stringify(SPEC) });
    expect(answer.status).toBe("spawned");
    await redis.del(live);
  }
  const left = (await redis.hkeys(registry)).filter((name) => !name.includes(STEM));
  expect(left).toEqual(Array.from({ length: 60 }, (_, n) => `there_${n}`));
});
