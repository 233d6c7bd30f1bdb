import { expect, test } from "vitest";
import { createOpenable } from "../../../src/shared/start-stop.ts";

/** Work whose starts end when the test says so, and a list of what it did. */
function heldWork() {
  const said: string[] = [];
  const starts: { opened(): void; failed(error: unknown): void }[] = [];
  const open = async () => {
    const number = starts.length + 1;
    said.push(`opens ${number}`);
    await new Promise<void>((opened, failed) => void starts.push({ opened, failed }));
    said.push(`opened ${number}`);
    return number;
  };
  const work = createOpenable(open, async (number) => void said.push(`closed ${number}`));
  return { work, said, starts };
}

const turn = () => new Promise(setImmediate);

test("a stop during a start waits for it and closes what it has opened", async () => {
  const { work, said, starts } = heldWork();
  const started = work.start();
  const stopped = work.stop().then(() => said.push("stopped"));
  await turn();
  expect(said).toEqual(["opens 1"]);
  starts[0]?.opened();
  await expect(started).resolves.toBe(1);
  await stopped;
  await work.stop();
  expect(said).toEqual(["opens 1", "opened 1", "closed 1", "stopped"]);
});

test("a start after a stop begins when that has ended, and a failed start before it takes nothing from it", async () => {
  const { work, said, starts } = heldWork();
  const refused = work.start();
  const stopped = work.stop();
  const again = work.start();
  await turn();
  expect(said).toEqual(["opens 1"]);
  starts[0]?.failed("no address");
  await expect(refused).rejects.toBe("no address");
  await stopped;
  await turn();
  starts[1]?.opened();
  await expect(again).resolves.toBe(2);
  await expect(work.start()).resolves.toBe(2);
  await work.stop();
  expect(said).toEqual(["opens 1", "opens 2", "opened 2", "closed 2"]);
});

test("a failed start is told to all who waited for it, the next one opens again, once for all, and closes once", async () => {
  const { work, said, starts } = heldWork();
  const both = Promise.allSettled([work.start(), work.start()]);
  await turn();
  starts[0]?.failed("too many files");
  expect((await both).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  const again = Promise.all([work.start(), work.start()]);
  await turn();
  starts[1]?.opened();
  expect(await again).toEqual([2, 2]);
  await work.stop();
  await work.stop();
  expect(said).toEqual(["opens 1", "opens 2", "opened 2", "closed 2"]);
});

test("after a failed stop it can be started again", async () => {
  let opened = 0;
  const work = createOpenable(
    async () => ++opened,
    async (number) => {
      if (number === 1) throw "not closed";
    },
  );
  await work.start();
  await expect(work.stop()).rejects.toBe("not closed");
  expect(await work.start()).toBe(2);
  await work.stop();
});
