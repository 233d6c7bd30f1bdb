/** What an ack keeps of an ended agent: in pieces of 64 bytes, or as its record, and nothing that only a run needs. */
import { expect, test } from "vitest";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import { bodyOf, verbRig, wellDone } from "./rig.ts";

test.for([
  ["one byte a character", "x"],
  ["three bytes a character", "…"],
])("a summary with %s is whole after the ack of its end, of whatever length", async ([, character = ""]) => {
  const rig = verbRig();
  await rig.redis.del(rig.keys.parent(rig.parent).live);
  const lastPieces = new Set<number>();
  for (let length = 1; length <= 64; length += 1) {
    const summary = character.repeat(length);
    const { agent, epoch } = await rig.running();
    await rig.readFirst(agent, epoch);
    await rig.store.settle(agent, { ...wellDone(epoch), known: 1, ...partsOf(bodyOf(summary)) });
    for (const entry of await rig.replies.read(rig.parent, "0", 1))
      expect(await rig.replies.ack(rig.parent, entry, "reader")).toBe(true);
    const raw = await rig.raw(agent);
    const kept = Object.keys(raw).filter((name) => name.startsWith("kept"));
    lastPieces.add(Buffer.byteLength(raw[`kept${kept.length}`] ?? ""));
    expect((await rig.store.record(agent))?.progress?.summary, `${length} characters`).toBe(summary);
  }
  // A last piece of one byte is among them.
  expect(lastPieces).toContain(1);
});

test("a record that stays with its transcript keeps nothing that only a run needs", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  const { record } = rig.keys.agent(agent);
  await rig.redis.hset(record, { transcript_ms: 60_000, breaks: 1, lost_call: "1.1" });
  await rig.store.settle(agent, { ...wellDone(epoch), known: 1 });
  for (const entry of await rig.replies.read(rig.parent, "0", 1))
    await rig.replies.ack(rig.parent, entry, "reader");
  const left = Object.keys(await rig.raw(agent));
  expect(left).toContain("spec");
  for (const name of ["begun", "breaks", "end_entry", "lost_call", "running_ms", "settled_epoch", "worker"])
    expect(left).not.toContain(name);
});
