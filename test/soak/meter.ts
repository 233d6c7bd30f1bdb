/** Prints a line `sample {…}` about the soak's process to stdout at an interval. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { z } from "zod";

/** One sample. `liveBytes`: memory after a full collection, with buffers outside the heap. Lags exclude the timer's period. */
export const OwnSample = z.object({
  at: z.number(),
  rssBytes: z.number(),
  liveBytes: z.number(),
  lagP99Ms: z.number(),
  lagMaxMs: z.number(),
  /** Number of runs or scenes in progress. */
  active: z.number(),
});
/** See {@link OwnSample}. */
export type OwnSample = z.infer<typeof OwnSample>;

const RESOLUTION_MS = 10;
const NS_A_MS = 1e6;

/** Starts to print samples; its timer does not keep the process alive. */
export function startMeter(everyMs: number, active: () => number): void {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  const lag = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  lag.enable();
  const report = () => {
    const excess = (ns: number) => Math.max(0, ns / NS_A_MS - RESOLUTION_MS);
    const lags = { lagP99Ms: excess(lag.percentile(99)), lagMaxMs: excess(lag.max) };
    if (typeof collect === "function") collect();
    const { rss, heapUsed, external } = process.memoryUsage();
    const sample: OwnSample = {
      at: Date.now(),
      rssBytes: rss,
      liveBytes: heapUsed + external,
      ...lags,
      active: active(),
    };
    process.stdout.write(`sample ${JSON.stringify(sample)}\n`);
    // The next sample must not include the lag of this collection.
    setTimeout(() => lag.reset(), 3 * RESOLUTION_MS).unref();
  };
  setInterval(report, everyMs).unref();
}
