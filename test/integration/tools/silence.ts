import { closeAtEnd } from "../../helpers/cleanup.ts";
import { lookForSilence } from "../../helpers/silence.ts";

/** Watches until the test is over; the answered function tells the longest silence of this process so far, ms. */
export function watchSilence(): () => number {
  let longestMs = 0;
  const looks = lookForSilence((ms) => {
    longestMs = Math.max(longestMs, ms);
  });
  closeAtEnd(looks.stop);
  return () => {
    looks.look();
    return longestMs;
  };
}
