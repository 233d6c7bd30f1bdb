/**
 * Ends what is under way, once. A tool that wants an AbortSignal gets one made for it when it asks; everything else
 * is told by a function, which costs no listener.
 */
import { setMaxListeners } from "node:events";
import { LinkedList } from "./linked-list.ts";

/** See the module's header. */
export class StopSignal {
  #isStopped = false;
  readonly #told = new LinkedList<() => void>();
  #controller: AbortController | undefined;

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Tells everything that listens, in order. Idempotent. */
  stop(): void {
    if (this.#isStopped) return;
    this.#isStopped = true;
    this.#controller?.abort();
    for (const tell of this.#told) tell();
    this.#told.clear();
  }

  /** Calls `tell` when it is stopped, at once where it is; answers what takes that back. */
  onStop(tell: () => void): () => void {
    if (this.#isStopped) {
      tell();
      return ignore;
    }
    const link = this.#told.add(tell);
    return () => link.remove();
  }

  /** Aborts when it is stopped. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      // A turn may ask for any number of tools at once.
      setMaxListeners(0, this.#controller.signal);
      if (this.#isStopped) this.#controller.abort();
    }
    return this.#controller.signal;
  }
}

/** Something that waits for an abort; `tell` is undefined once that was taken back. */
interface Waiting {
  tell: (() => void) | undefined;
}

/** All that waits for one signal, behind one listener: from the eleventh on Node warns the signal's owner of a leak. */
interface Listener {
  waiting: LinkedList<Waiting>;
  tellAll(): void;
}

const LISTENERS = new WeakMap<AbortSignal, Listener>();

/**
 * Calls `tell` when `signal` aborts, at once where it has; what is answered takes that back. The only listener of its kind:
 * one that is forgotten keeps what it tells alive as long as the signal. While nothing waits the signal has no listener: with
 * one, Node keeps a signal of `AbortSignal.any` or `timeout` alive.
 */
export function onAbort(signal: AbortSignal | undefined, tell: () => void): () => void {
  if (!signal) return ignore;
  if (signal.aborted) {
    tell();
    return ignore;
  }
  const listener = LISTENERS.get(signal) ?? listenTo(signal);
  const waiting: Waiting = { tell };
  const link = listener.waiting.add(waiting);
  return () => {
    waiting.tell = undefined;
    link.remove();
    if (!listener.waiting.isEmpty || LISTENERS.get(signal) !== listener) return;
    LISTENERS.delete(signal);
    signal.removeEventListener("abort", listener.tellAll);
  };
}

function listenTo(signal: AbortSignal): Listener {
  const waiting = new LinkedList<Waiting>();
  const tellAll = () => {
    for (const each of waiting) each.tell?.();
    waiting.clear();
  };
  signal.addEventListener("abort", tellAll, { once: true });
  const listener = { waiting, tellAll };
  LISTENERS.set(signal, listener);
  return listener;
}

/** Resolves when `signal` has aborted. */
export function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    onAbort(signal, resolve);
  });
}

function ignore(): void {}
