/** The doorbell of a parent's channel, for a caller that looks by itself and only wants to know when to look again. */
import type { ParentAddress } from "../../shared/protocol/keys.ts";
import type { Installation } from "../../shared/redis/installation.ts";
import type { Subscriber } from "../subscriber.ts";

/** A doorbell that is listened to until `close`, the abort of a signal, or the end of the client. */
export interface Doorbell {
  /** Resolves at the first ring or gap after it was called; at once when the doorbell is closed. */
  next(): Promise<void>;
  /** Rings a last time. Idempotent. */
  close(): void;
  readonly isClosed: boolean;
}

/** Listens to the doorbell of `parent`. */
export function listenToDoorbell(
  { subscriber, keys }: Pick<Installation, "keys"> & { subscriber: Subscriber },
  parent: ParentAddress,
  signal?: AbortSignal,
): Doorbell {
  let waiting: (() => void)[] = [];
  let isClosed = false;
  const ring = () => {
    const rung = waiting;
    waiting = [];
    for (const resolve of rung) resolve();
  };
  const close = () => {
    if (isClosed) return;
    isClosed = true;
    signal?.removeEventListener("abort", close);
    unwatch();
    ring();
  };
  const unwatch = subscriber.watch(keys.parent(parent).doorbell, {
    onMessage: ring,
    onGap: ring,
    onStop: () => close(),
  });
  signal?.addEventListener("abort", close, { once: true });
  if (signal?.aborted) close();
  return {
    next: () => (isClosed ? Promise.resolve() : new Promise<void>((resolve) => waiting.push(resolve))),
    close,
    get isClosed() {
      return isClosed;
    },
  };
}
