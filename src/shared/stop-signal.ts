/**
 * Stops work under way, once. A tool that wants an AbortSignal gets one on demand; all other code registers a function,
 * which costs no event listener.
 */
import { setMaxListeners } from "node:events";
import { LinkedList } from "./linked-list.ts";

/** See the module's header. */
export class StopSignal {
  #isStopped = false;
  readonly #callbacks = new LinkedList<() => void>();
  #controller: AbortController | undefined;

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Calls every registered function, in order. Idempotent. */
  stop(): void {
    if (this.#isStopped) return;
    this.#isStopped = true;
    this.#controller?.abort();
    for (const tell of this.#callbacks) tell();
    this.#callbacks.clear();
  }

  /** Calls `tell` on the stop, at once if it has happened. Returns a function that unregisters `tell`. */
  onStop(tell: () => void): () => void {
    if (this.#isStopped) {
      tell();
      return ignore;
    }
    const link = this.#callbacks.add(tell);
    return () => link.remove();
  }

  /** Signal that aborts on the stop. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      // A turn may call any number of tools at once.
      setMaxListeners(0, this.#controller.signal);
      if (this.#isStopped) this.#controller.abort();
    }
    return this.#controller.signal;
  }
}

/** All functions that wait for one signal, behind one listener: from the eleventh on Node warns the signal's owner of a leak. */
interface Listener {
  waiting: LinkedList<() => void>;
  tellAll(): void;
}

const LISTENERS = new WeakMap<AbortSignal, Listener>();

/**
 * Calls `tell` when `signal` aborts, at once if it has. Returns a function that unregisters `tell`. No other code listens
 * for aborts: a forgotten listener keeps its callback alive as long as the signal. While no function waits, the signal has
 * no listener, because with one Node keeps a signal of `AbortSignal.any` or `timeout` alive.
 */
export function onAbort(signal: AbortSignal | undefined, tell: () => void): () => void {
  if (!signal) return ignore;
  if (signal.aborted) {
    tell();
    return ignore;
  }
  const listener = LISTENERS.get(signal) ?? listenTo(signal);
  const link = listener.waiting.add(tell);
  return () => {
    link.remove();
    if (!listener.waiting.isEmpty || LISTENERS.get(signal) !== listener) return;
    LISTENERS.delete(signal);
    signal.removeEventListener("abort", listener.tellAll);
  };
}

function listenTo(signal: AbortSignal): Listener {
  const waiting = new LinkedList<() => void>();
  const tellAll = () => {
    for (const tell of waiting) tell();
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

/** Resolves or rejects as `work` does; rejects with the signal's reason if `signal` aborts first. `work` then goes on, unheard. */
export function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let forget = ignore;
  const aborted = new Promise<never>((_resolve, reject) => {
    forget = onAbort(signal, () => reject(signal.reason));
  });
  return Promise.race([work, aborted]).finally(forget);
}

function ignore(): void {}
