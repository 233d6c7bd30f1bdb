/** Guarantee: each entry of a parent's channel carries the version of its form, in the stream and in the doorbell. */
import { expect, test } from "vitest";
import { connected, DESTROY, verbRig } from "./rig.ts";

test("replies, questions and ends say their version, in the channel and to those who wait", async () => {
  const rig = verbRig();
  const { replies, doorbell } = rig.keys.parent(rig.parent);
  const rung: unknown[] = [];
  const listener = connected();
  await listener.subscribe(doorbell);
  listener.on("message", (_, entry: string) => rung.push(JSON.parse(entry)));
  const { agent } = await rig.waiting();
  await rig.store.settle(agent, DESTROY);
  await rig.store.settle(await rig.spawn(), DESTROY);
  const entries = await rig.redis.xrange(replies, "-", "+");
  expect(entries.map(([, [name, version]]) => [name, version])).toEqual(Array(3).fill(["v", "1"]));
  await rig.redis.publish(doorbell, '"end"');
  await expect.poll(() => rung).toEqual([...entries, "end"]);
});
