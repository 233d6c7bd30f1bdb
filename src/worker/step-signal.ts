/** The signal of one step: aborts when the lease is lost, the process cannot wait, or the run's time for it is over. */
import type { RunContext } from "./run-context.ts";
import type { Session } from "./session.ts";

/** A fresh signal for one step; `done` takes it back. */
export interface StepSignal {
  signal: AbortSignal;
  done(): void;
}

/** Opens the signal of a step that must be over when the run has been running for `untilMs`. */
export function openStepSignal(
  { clock, abandoned }: RunContext,
  { lease }: Session,
  untilMs: number,
): StepSignal {
  const controller = new AbortController();
  const abort = () => controller.abort();
  const sources = [lease.signal, abandoned];
  for (const source of sources) source.addEventListener("abort", abort, { once: true });
  if (!lease.isLive() || abandoned.aborted) abort();
  let timer: { cancel(): void };
  // A timer may fire a moment early; the step that follows must find the time really over.
  const watch = () => {
    const leftMs = untilMs - lease.runningMs();
    timer = clock.timeout(Math.max(0, leftMs), () => (lease.runningMs() < untilMs ? watch() : abort()));
  };
  watch();
  return {
    signal: controller.signal,
    done() {
      timer.cancel();
      for (const source of sources) source.removeEventListener("abort", abort);
    },
  };
}
