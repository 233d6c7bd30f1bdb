/** For how long the event loop of this process was busy with one thing. */
import { readFileSync } from "node:fs";
import { closeAtEnd } from "../../helpers/cleanup.ts";

const EVERY_MS = 10;

/**
 * Watches until the test is over; the answered function tells the longest silence so far, ms. What counts is the time for which
 * the main thread had a processor: beside the load of other processes it also waits for one, or for a thread of V8 that does.
 */
export function watchSilence(): () => number {
  let [lastMs, longestMs] = [busyMs(), 0];
  const look = () => {
    const nowMs = busyMs();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
  };
  const ticker = setInterval(look, EVERY_MS);
  closeAtEnd(() => clearInterval(ticker));
  return () => {
    look();
    return longestMs;
  };
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
