/** What is kept of an acked agent says of it what its record said. */
import { expect, test } from "vitest";
import { viewOf } from "../../../src/shared/protocol/agent.ts";
import { keptReply } from "../../../src/shared/redis/replies.ts";
import { DESTROY, type Rig, SPEC, verbRig, wellDone } from "./rig.ts";

/** Acks the only entry of the channel, and returns it. */
async function ackOnly(rig: Rig) {
  const [entry] = await rig.replies.read(rig.parent, "0", 2);
  if (!entry) throw new Error("no entry");
  expect(await rig.replies.ack(rig.parent, entry, "reader")).toBe(true);
  return entry;
}

test("an agent that stayed after its replies is still shown as one after the ack of its end, with what it was made from", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  const spec = { ...SPEC, keep_alive: true, description: "reads", definition: "reader" };
  await rig.redis.hset(rig.keys.agent(agent).record, "spec", JSON.stringify(spec));
  await rig.store.settle(agent, DESTROY);
  const before = await rig.store.record(agent);
  await ackOnly(rig);
  const after = await rig.store.record(agent);
  if (!before || !after) throw new Error("no record");
  expect(after.acked_by).toBe("reader");
  const { keep_alive, description, definition } = spec;
  expect(viewOf(after)).toEqual({ ...viewOf(before), keep_alive, description, definition });
});

test.for([undefined, 60_000])(
  "a reply that answers messages names them also after its ack (its transcript is kept for %s ms)",
  async (transcript_ms) => {
    const rig = verbRig();
    const { agent, epoch } = await rig.running();
    if (transcript_ms) await rig.redis.hset(rig.keys.agent(agent).record, { transcript_ms });
    await rig.readFirst(agent, epoch, { consume_ids: [agent.uid] });
    await rig.store.settle(agent, { ...wellDone(epoch), known: 1 });
    const entry = await ackOnly(rig);
    expect(entry.entry).toMatchObject({ message_ids: [agent.uid] });
    const record = await rig.store.record(agent);
    expect(record && keptReply(record)).toEqual(entry);
    // In the record itself they belong to a run.
    expect(await rig.raw(agent)).not.toHaveProperty("message_ids");
  },
);
