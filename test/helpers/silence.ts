/** Measures how long single tasks block the event loop of this process. */
import { readFileSync } from "node:fs";

const EVERY_MS = 10;

/** A running measurement. */
interface SilenceLooks {
  /** Measures now, in addition to the interval. */
  look(): void;
  stop(): void;
}

/**
 * Calls `told` with each blocked period (ms). Only the main thread's CPU time counts: under load of other processes it also
 * waits for a CPU, or for a thread of V8 that waits for one.
 */
export function lookForSilence(told: (ms: number) => void): SilenceLooks {
  let lastMs = busyMs();
  const look = () => {
    const nowMs = busyMs();
    told(nowMs - lastMs);
    lastMs = nowMs;
  };
  const ticker = setInterval(look, EVERY_MS);
  return { look, stop: () => clearInterval(ticker) };
}

/** Returns the CPU time of the main thread, ms; on a system without /proc, the elapsed time. */
function busyMs(): number {
  try {
    const [ranNs] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ");
    return Number(ranNs) / 1e6;
  } catch {
    return performance.now();
  }
}
