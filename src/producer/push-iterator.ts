/**
 * An async iterator with pushed values, for readers of replies and events.
 *
 * 1. The iterator yields values in the order in which they were pushed, each once.
 * 2. After the end (by either side) it yields no value, and `onEnd` has run exactly once.
 */
import { onAbort } from "../shared/stop-signal.ts";

/** See the module's header. */
export interface PushIterator<T> extends AsyncIterableIterator<T> {
  push(value: T): void;
  /** Ends the stream: a waiting reader gets `done`. Idempotent. */
  end(): void;
  /** Number of values that no reader has taken yet. */
  readonly waiting: number;
}

/** Callbacks and abort signal of a stream. */
export interface PushIteratorOptions {
  /** Runs once when the stream ends, by either side. */
  onEnd?: () => void;
  /** Runs when a reader requests a value and the stream is empty. */
  onEmpty?: () => void;
  /** Ends the stream when aborted. */
  signal?: AbortSignal | undefined;
}

/** Creates an empty stream. */
export function createPushIterator<T>(options: PushIteratorOptions = {}): PushIterator<T> {
  const { onEnd, onEmpty, signal } = options;
  const values: T[] = [];
  const takers: ((result: IteratorResult<T>) => void)[] = [];
  let ended = false;
  let forget = () => {};

  const end = () => {
    if (ended) return;
    ended = true;
    forget();
    values.length = 0;
    for (const take of takers.splice(0)) take({ done: true, value: undefined });
    onEnd?.();
  };
  const stream: PushIterator<T> = {
    get waiting() {
      return values.length;
    },
    push(value) {
      if (ended) return;
      const take = takers.shift();
      if (take) return take({ done: false, value });
      values.push(value);
    },
    end,
    async next() {
      const value = values.shift();
      if (value !== undefined) return { done: false, value };
      if (ended) return { done: true, value: undefined };
      return new Promise((resolve) => {
        takers.push(resolve);
        onEmpty?.();
      });
    },
    async return() {
      end();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]: () => stream,
  };
  forget = onAbort(signal, end);
  return stream;
}

/** Returns an iterator over a stream that is still being opened; if the opening fails, reading rejects with its reason. */
export function whenOpened<T>(opening: Promise<AsyncIterableIterator<T>>): AsyncIterableIterator<T> {
  // If the reader never reads, a failed opening must not be an unhandled rejection.
  opening.catch(() => {});
  const iterator: AsyncIterableIterator<T> = {
    next: async () => (await opening).next(),
    async return() {
      const stream = await opening.catch(() => undefined);
      await stream?.return?.();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]: () => iterator,
  };
  return iterator;
}

/** Iterates over `values` until `onStop` calls the function that it is given; the values after that are left out. */
export async function* untilStop<T>(
  values: AsyncIterable<T>,
  onStop: (end: () => void) => () => void,
): AsyncGenerator<T, undefined> {
  let isOver = false;
  const forget = onStop(() => {
    isOver = true;
  });
  try {
    for await (const value of values) {
      if (isOver) break;
      yield value;
    }
  } finally {
    forget();
  }
}
