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

/**
 * Calls `tell` when `signal` aborts, at once where it has; what is answered takes that back. The only listener of its kind:
 * one that is forgotten keeps what it tells alive as long as the signal.
 */
export function onAbort(signal: AbortSignal | undefined, tell: () => void): () => void {
  if (signal?.aborted) tell();
  else signal?.addEventListener("abort", tell, { once: true });
  return () => signal?.removeEventListener("abort", tell);
}

/** Resolves when `signal` has aborted. */
export function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    onAbort(signal, resolve);
  });
}

function ignore(): void {}
