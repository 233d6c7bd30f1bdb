import { describe, expect, it } from "vitest";
import { createSearchQueue, type SearchQueue } from "../../../../../src/worker/tools/search/search.ts";

/** Enters and notes the order of the turns; each search ends when it is told to. */
function watch(queue: SearchQueue) {
  const order: string[] = [];
  const ends = new Map<string, () => void>();
  const enter = (run: string, name: string) =>
    void queue.enter(run, new AbortController().signal).then((end) => {
      order.push(name);
      ends.set(name, end);
    });
  const settled = () => new Promise(setImmediate);
  const end = async (name: string) => {
    ends.get(name)?.();
    await settled();
  };
  return { order, enter, end, settled };
}

describe("the queue of searches", () => {
  it("lets one search of a run go on at a time, and those of other runs beside it", async () => {
    const { order, enter, end, settled } = watch(createSearchQueue(3));
    for (const name of ["a1", "a2", "a3"]) enter("a", name);
    enter("b", "b1");
    await settled();
    expect(order).toEqual(["a1", "b1"]);
    await end("a1");
    expect(order).toEqual(["a1", "b1", "a2"]);
  });

  it("gives the runs turns, whoever asked for sixty before", async () => {
    const { order, enter, end, settled } = watch(createSearchQueue(1));
    for (let n = 0; n < 60; n++) enter("evil", `evil${n}`);
    for (const name of ["b1", "b2"]) enter("b", name);
    enter("c", "c1");
    await settled();
    for (const name of ["evil0", "b1", "c1", "evil1", "b2"]) await end(name);
    expect(order).toEqual(["evil0", "b1", "c1", "evil1", "b2", "evil2"]);
  });

  it("forgets a search that gave up, and refuses one that is stopped already", async () => {
    const queue = createSearchQueue(1);
    const { signal } = new AbortController();
    const end = await queue.enter("a", signal);
    const impatient = new AbortController();
    const gaveUp = queue.enter("b", impatient.signal);
    const next = queue.enter("c", signal);
    impatient.abort();
    await expect(gaveUp).rejects.toThrow("stopped");
    end();
    (await next)();
    await expect(queue.enter("d", AbortSignal.abort())).rejects.toThrow("stopped");
    (await queue.enter("e", signal))();
  });
});
