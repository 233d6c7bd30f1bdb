/** Guarantee: a queue that could not be opened once is opened at the next use, and ends with no error. */
import { expect, test } from "vitest";
import { onDemand } from "../../../../src/shared/redis/wake-queue.ts";

/** A queue whose first opening fails; `closed`: how often it was closed. */
function scene() {
  let openings = 0;
  const opened = {
    closed: 0,
    async close() {
      opened.closed += 1;
    },
  };
  const queue = onDemand(async () => {
    openings += 1;
    if (openings === 1) throw new Error("EMFILE");
    return opened;
  });
  return { queue, opened, openings: () => openings };
}

test("a failed opening is told to those who waited for it, and the next use opens again, once for all", async () => {
  const { queue, opened, openings } = scene();
  const both = await Promise.allSettled([queue.open(), queue.open()]);
  expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(await Promise.all([queue.open(), queue.open()])).toEqual([opened, opened]);
  expect(openings()).toBe(2);
  await queue.close();
  await queue.close();
  expect(opened.closed).toBe(1);
});

test("what is not open, or was not to be opened, is closed without an error", async () => {
  const { queue, openings } = scene();
  await queue.close();
  expect(openings()).toBe(0);
  const failed = queue.open();
  await Promise.all([expect(failed).rejects.toThrow("EMFILE"), queue.close()]);
});
