/** Guarantee: what a process sends to its Redis in one round of the event loop is one write, in the order in which it was sent. */
import type { Writable } from "node:stream";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { verbRig } from "./rig.ts";

/** Counts how often `stream` hands something to the operating system. */
function countWrites(stream: Writable): () => number {
  let writes = 0;
  const { _write, _writev } = stream;
  stream._write = (...args) => {
    writes += 1;
    _write.apply(stream, args);
  };
  stream._writev = (...args) => {
    writes += 1;
    _writev?.apply(stream, args);
  };
  return () => writes;
}

test("commits that come together are one write, in their order; the next round is another", async () => {
  const rig = verbRig();
  if (!(rig.redis instanceof Redis)) return;
  const agents = await Promise.all(Array.from({ length: 8 }, () => rig.running()));
  const commit = ({ agent, epoch }: (typeof agents)[number], n: number) =>
    rig.store.append(agent, { epoch, known: n, running_ms: 1, entries: [[`${n}`, "{}"]] });
  const writes = countWrites(rig.redis.stream);
  const first = await Promise.all(agents.map((each) => commit(each, 0)));
  expect(first.every(({ status }) => status === "appended")).toBe(true);
  expect(writes()).toBe(1);
  // Of two commits to one log the second builds on the first.
  const [each] = agents;
  if (!each) throw new RangeError("no agent");
  const both = await Promise.all([commit(each, 1), commit(each, 2)]);
  expect(both.map(({ status }) => status)).toEqual(["appended", "appended"]);
  expect(writes()).toBe(2);
});

test("what was gathered when the connection ends is sent over the next one", async () => {
  const rig = verbRig();
  if (!(rig.redis instanceof Redis)) return;
  const { agent, epoch } = await rig.running();
  const sent = rig.store.append(agent, { epoch, known: 0, running_ms: 1, entries: [["0", "{}"]] });
  rig.redis.stream.destroy();
  expect(await sent).toMatchObject({ status: "appended" });
});
