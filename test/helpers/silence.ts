/** For how long the event loop of this process is busy with one thing. */
import { readFileSync } from "node:fs";

const EVERY_MS = 10;

/** Looks at the event loop until it is stopped. */
interface SilenceLooks {
  /** Looks now, too. */
  look(): void;
  stop(): void;
}

/**
 * Has each silence told, ms. What counts is the time for which the main thread had a processor: beside the load of other
 * processes it also waits for one, or for a thread of V8 that does.
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

/** How long the main thread has had a processor, ms; all the time, where the system does not tell. */
function busyMs(): number {
  try {
    const [ranNs] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ");
    return Number(ranNs) / 1e6;
  } catch {
    return performance.now();
  }
}
