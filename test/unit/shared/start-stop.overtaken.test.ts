/** What a start says that a stop overtakes, or that comes while a stop fails. */
import { expect, test } from "vitest";
import { createCancellable } from "../../../src/shared/start-stop.ts";
import { latch } from "../../helpers/latch.ts";
import { refusal } from "../../helpers/parents.ts";

test.for([
  ["succeeds", async () => {}],
  ["fails", () => Promise.reject(new Error("Connection is closed."))],
] as const)("a start whose last step %s after a stop is refused", async ([, lastStep]) => {
  const stopped = latch();
  const work = createCancellable("The work", {
    open: () => true,
    begin: () => stopped.opened.then(lastStep),
    end: async (_, starting) => {
      stopped.open();
      await starting?.catch(() => {});
    },
  });
  const refused = expect(work.start()).rejects.toMatchObject(refusal("closed"));
  await work.stop();
  await refused;
});

test("a start that comes while a stop fails begins after it", async () => {
  let opens = 0;
  const work = createCancellable("The work", {
    open: () => ++opens,
    begin: async () => {},
    end: (opened) => (opened === 1 ? Promise.reject(new Error("no close")) : Promise.resolve()),
  });
  await work.start();
  const [stopped, started] = await Promise.allSettled([work.stop(), work.start()]);
  expect([stopped.status, started.status, work.opened]).toEqual(["rejected", "fulfilled", 2]);
  await work.stop();
});
