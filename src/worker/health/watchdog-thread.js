// @ts-check
/**
 * Program of a watchdog's thread: ends the process if its main thread has been silent for too long. Plain JavaScript, so
 * that a thread can start from this file whether the package is built or not.
 *
 * 1. It counts checks without a beat of the main thread, not time. A process that was stopped, or whose machine slept, makes
 *    only one check when it continues.
 * 2. It ends the process by SIGKILL, because any other way of ending needs the main thread.
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
