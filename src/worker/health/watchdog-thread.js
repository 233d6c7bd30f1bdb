// @ts-check
/**
 * The program of a watchdog's thread: ends the process when its main thread has been silent for too long. Plain JavaScript, so
 * that a thread starts from this file whether the package is built or not.
 *
 * 1. What counts is checks at which the main thread has said nothing, not time: a process that was stopped, or whose machine
 *    slept, checks once when it goes on.
 * 2. The process is ended by SIGKILL: whatever else it would do on its way out, the main thread would have to do.
 */
import { writeSync } from "node:fs";
import { workerData } from "node:worker_threads";

/** @type {{ shared: SharedArrayBuffer, checkMs: number, silentChecks: number, sentence: string }} */
const { shared, checkMs, silentChecks, sentence } = workerData;
const [BEATS, DEBUGGED, STOPPED] = [0, 1, 2];
const STANDARD_ERROR = 2;
const state = new Int32Array(shared);

let heard = Atomics.load(state, BEATS);
let silent = 0;
while (Atomics.wait(state, STOPPED, 0, checkMs) === "timed-out") {
  const beats = Atomics.load(state, BEATS);
  const isSilent = beats === heard && Atomics.load(state, DEBUGGED) === 0;
  silent = isSilent ? silent + 1 : 0;
  heard = beats;
  if (silent < silentChecks) continue;
  try {
    writeSync(STANDARD_ERROR, `${sentence}\n`);
  } finally {
    process.kill(process.pid, "SIGKILL");
  }
}
