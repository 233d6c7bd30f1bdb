/** Guarantee: the ack of an agent's end costs Redis the same, however many entries its transcript has. */
import { expect, test } from "vitest";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a long transcript is freed in the background", async () => {
  const stage = await openStage({ redis: "own" });
  const parent = stage.parent();
  const { agent_id } = await parent.spawn({ name: "worker" });
  await parent.destroy(agent_id);
  const address = { tenant: "default", parentId: "planner-7" };
  const uid = (await stage.store.uidOf(address, agent_id)) ?? "";
  const { transcript } = stage.keys.agent({ ...address, uid });
  const entries = Array.from({ length: 1_000 }, (_, n) => [`${n}/result`, "{}"]);
  await stage.observer.hset(transcript, ...entries.flat());
  for await (const entry of parent.replies()) {
    await entry.ack();
    break;
  }
  // An agent that was destroyed while it was idle has no run whose holder could ask.
  expect(await stage.observer.exists(transcript)).toBe(0);
  // Redis counts an object when the background thread has freed it.
  await until(async () => !/lazyfreed_objects:0\r/.test(await stage.observer.info("memory")));
});
