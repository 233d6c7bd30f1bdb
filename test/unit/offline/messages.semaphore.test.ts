import { expect, test } from "vitest";
import { createSemaphore } from "../../../src/offline/messages.ts";

test("so many are in at a time, and the others come in the order in which they waited", async () => {
  const semaphore = createSemaphore(2);
  const order: string[] = [];
  const enter = async (name: string) => {
    const leave = await semaphore.enter();
    order.push(name);
    return leave;
  };
  const [leaveA, leaveB] = [await enter("a"), await enter("b")];
  const [c, d] = [enter("c"), enter("d")];
  expect(order).toEqual(["a", "b"]);
  leaveB();
  await c;
  expect(order).toEqual(["a", "b", "c"]);
  leaveA();
  await d;
  expect(order).toEqual(["a", "b", "c", "d"]);
});

test("without a number nobody waits", async () => {
  const semaphore = createSemaphore(undefined);
  for (let n = 0; n < 100; n += 1) await semaphore.enter();
});
