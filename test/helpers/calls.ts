import { Session } from "node:inspector/promises";

/**
 * Returns the number of function calls that `work` makes in scripts whose URL contains one of `scripts`. V8 counts them, so
 * the number is the same in each run, on any machine and beside any load. Loops without a call, and native code, do not count.
 */
export async function callsOf(work: () => void, ...scripts: readonly string[]): Promise<number> {
  const session = new Session();
  session.connect();
  try {
    await session.post("Profiler.enable");
    await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    await session.post("Profiler.takePreciseCoverage");
    work();
    const { result } = await session.post("Profiler.takePreciseCoverage");
    return result
      .filter(({ url }) => scripts.some((script) => url.includes(script)))
      .flatMap(({ functions }) => functions.flatMap(({ ranges }) => ranges))
      .reduce((sum, { count }) => sum + count, 0);
  } finally {
    await session.post("Profiler.stopPreciseCoverage");
    session.disconnect();
  }
}
