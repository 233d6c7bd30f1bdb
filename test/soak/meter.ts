/** What a process of the soak says about itself: one line `sample {…}` every so often, on stdout. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { z } from "zod";

/** One sample. `liveBytes`: what a full collection leaves, buffers outside the heap included; lags without the timer's own period. */
export const OwnSample = z.object({
  at: z.number(),
  rssBytes: z.number(),
  liveBytes: z.number(),
  lagP99Ms: z.number(),
  lagMaxMs: z.number(),
  /** Runs or scenes going on. */
  active: z.number(),
});
/** See {@link OwnSample}. */
export type OwnSample = z.infer<typeof OwnSample>;

const RESOLUTION_MS = 10;
const NS_A_MS = 1e6;

/** Starts to report; the timer keeps no process alive. */
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
    // The collection was ours: the next sample must not find it.
    setTimeout(() => lag.reset(), 3 * RESOLUTION_MS).unref();
  };
  setInterval(report, everyMs).unref();
}
