/** For how long the event loop of this process was busy with one thing. */
import { readFileSync } from "node:fs";
import { closeAtEnd } from "../../helpers/cleanup.ts";

const EVERY_MS = 10;

/**
 * Watches until the test is over; the answered function tells the longest silence so far, ms. Time in which the system
 * gave the main thread no processor is not counted: beside the load of other processes it says nothing about ours.
 */
export function watchSilence(): () => number {
  let [lastMs, lastWaitedMs, longestMs] = [performance.now(), waitedMs(), 0];
  const look = () => {
    const [nowMs, nowWaitedMs] = [performance.now(), waitedMs()];
    longestMs = Math.max(longestMs, nowMs - lastMs - (nowWaitedMs - lastWaitedMs));
    [lastMs, lastWaitedMs] = [nowMs, nowWaitedMs];
  };
  const ticker = setInterval(look, EVERY_MS);
  closeAtEnd(() => clearInterval(ticker));
  return () => {
    look();
    return longestMs;
  };
}

/** How long the main thread has waited for a processor, ms; 0 where the system does not tell. */
function waitedMs(): number {
  try {
    const [, waitedNs] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ");
    return Number(waitedNs) / 1e6;
  } catch {
    return 0;
  }
}
