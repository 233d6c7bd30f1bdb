import { expect, test } from "vitest";
import { createCancellable } from "../../../src/shared/start-stop.ts";
import { latch } from "../../helpers/latch.ts";
import { refusal } from "../../helpers/parents.ts";

const EARLY = refusal("closed", /^The work was stopped before it had started\.$/);

/** Work whose starts and stops end when the test says so, and a list of what it did. */
function heldWork() {
  const said: string[] = [];
  const [begun, ended] = [latch(), latch()];
  let opens = 0;
  const work = createCancellable("The work", {
    open() {
      opens += 1;
      said.push(`opens ${opens}`);
      return opens;
    },
    async begin(number, requireGoingOn) {
      await begun.opened;
      requireGoingOn();
      said.push(`goes on ${number}`);
    },
    async end(number, starting) {
      await starting?.catch(() => {});
      await ended.opened;
      said.push(`closed ${number}`);
    },
  });
  return { work, said, begun, ended };
}

test("a stop cancels a start under way, and what it has opened is closed", async () => {
  const { work, said, begun, ended } = heldWork();
  await work.stop();
  const started = expect(work.start()).rejects.toMatchObject(EARLY);
  expect(work.opened).toBe(1);
  const stopped = work.stop();
  begun.open();
  await started;
  ended.open();
  await Promise.all([stopped, work.stop()]);
  expect(said).toEqual(["opens 1", "closed 1"]);
  expect(work.opened).toBeUndefined();
});

test("a start during a stop begins after it, once for all; stopped once more before, it does not begin", async () => {
  const { work, said, begun, ended } = heldWork();
  begun.open();
  await Promise.all([work.start(), work.start()]);
  const stopped = work.stop();
  const again = [work.start(), work.start()];
  ended.open();
  await Promise.all([stopped, ...again]);
  expect(said).toEqual(["opens 1", "goes on 1", "closed 1", "opens 2", "goes on 2"]);
  void work.stop();
  const refused = expect(work.start()).rejects.toMatchObject(EARLY);
  await work.stop();
  await refused;
  expect(said.slice(5)).toEqual(["closed 2"]);
});

test("a failed start is told until the stop, after which the next one opens again", async () => {
  let opens = 0;
  const work = createCancellable("The work", {
    open: () => ++opens,
    async begin(number) {
      if (number === 1) throw "no room";
    },
    end: async () => {},
  });
  await expect(work.start()).rejects.toBe("no room");
  await expect(work.start()).rejects.toBe("no room");
  await work.stop();
  await work.start();
  expect(opens).toBe(2);
});

test("after an end that failed the next start opens again", async () => {
  let opens = 0;
  const work = createCancellable("The work", {
    open: () => {
      opens += 1;
      return opens;
    },
    begin: async () => {},
    end: (opened) => (opened === 1 ? Promise.reject(new Error("no close")) : Promise.resolve()),
  });
  await work.start();
  await expect(work.stop()).rejects.toThrow("no close");
  expect(work.opened).toBeUndefined();
  await work.start();
  expect(work.opened).toBe(2);
  await work.stop();
});
