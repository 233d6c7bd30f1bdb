import { getEventListeners } from "node:events";
import { expect, test, vi } from "vitest";
import { createPushIterator, whenOpened } from "../../../src/producer/push-iterator.ts";
import { latch } from "../../helpers/latch.ts";

test("a stream that has ended leaves nothing at its signal, which may outlive thousands of them", async () => {
  const { signal } = new AbortController();
  const left = createPushIterator<number>({ signal });
  const ended = createPushIterator<number>({ signal });
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  await left.return?.();
  ended.end();
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

test("a reader that leaves before its stream is open closes it as soon as it is", async () => {
  const onEnd = vi.fn();
  const opening = latch<AsyncIterableIterator<number>>();
  const leaving = whenOpened(opening.opened).return?.();
  opening.open(createPushIterator<number>({ onEnd }));
  expect(await leaving).toEqual({ done: true, value: undefined });
  expect(onEnd).toHaveBeenCalledTimes(1);
});

test("a failed opening rejects whoever reads, and nobody who leaves", async () => {
  const refused = Promise.reject(new TypeError("refused"));
  const iterator = whenOpened<number>(refused);
  await expect(iterator.next()).rejects.toThrow("refused");
  expect(await iterator.return?.()).toEqual({ done: true, value: undefined });
});
