import { expect, test, vi } from "vitest";
import { createPushIterator } from "../../../src/producer/push-iterator.ts";

test("values come out in the order they went in, whether somebody waits already or not", async () => {
  const stream = createPushIterator<number>();
  const early = [stream.next(), stream.next()];
  for (const value of [1, 2, 3]) stream.push(value);
  expect((await Promise.all([...early, stream.next()])).map(({ value }) => value)).toEqual([1, 2, 3]);
});

test("its end reaches everybody who waits and everybody who asks later, and happens once", async () => {
  const onEnd = vi.fn();
  const stream = createPushIterator<number>({ onEnd });
  const waiting = stream.next();
  stream.end();
  stream.end();
  await stream.return?.();
  stream.push(1);
  expect([await waiting, await stream.next()].map(({ done }) => done)).toEqual([true, true]);
  expect(onEnd).toHaveBeenCalledTimes(1);
});

test("a break ends it", async () => {
  const onEnd = vi.fn();
  const stream = createPushIterator<number>({ onEnd });
  stream.push(1);
  stream.push(2);
  for await (const value of stream) {
    expect(value).toBe(1);
    break;
  }
  expect(onEnd).toHaveBeenCalledTimes(1);
  expect((await stream.next()).done).toBe(true);
});

test("a signal ends it, also one that was aborted before", async () => {
  const stop = new AbortController();
  const stream = createPushIterator<number>({ signal: stop.signal });
  const waiting = stream.next();
  stop.abort();
  expect((await waiting).done).toBe(true);
  expect((await createPushIterator<number>({ signal: AbortSignal.abort() }).next()).done).toBe(true);
});

test("asks for more each time somebody waits in vain, and only then", async () => {
  const onEmpty = vi.fn();
  const stream = createPushIterator<number>({ onEmpty });
  stream.push(1);
  await stream.next();
  expect(onEmpty).not.toHaveBeenCalled();
  const waiting = stream.next();
  expect(onEmpty).toHaveBeenCalledTimes(1);
  stream.push(2);
  expect((await waiting).value).toBe(2);
});
