import { Session } from "node:inspector/promises";

/**
 * Returns the number of function calls that each of `works` makes in scripts whose URL contains one of `scripts`. V8 counts them,
 * so the numbers are the same in each run, on any machine and beside any load. Loops without a call, and native code, do not
 * count. V8 takes longer to begin than to count, so works that are compared belong into one call.
 */
export async function callsOf(
  works: readonly (() => void)[],
  ...scripts: readonly string[]
): Promise<number[]> {
  const session = new Session();
  session.connect();
  try {
    await session.post("Profiler.enable");
    await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    await session.post("Profiler.takePreciseCoverage");
    const calls: number[] = [];
    for (const work of works) {
      work();
      const { result } = await session.post("Profiler.takePreciseCoverage");
      calls.push(
        result
          .filter(({ url }) => scripts.some((script) => url.includes(script)))
          .flatMap(({ functions }) => functions.flatMap(({ ranges }) => ranges))
          .reduce((sum, { count }) => sum + count, 0),
      );
    }
    return calls;
  } finally {
    await session.post("Profiler.stopPreciseCoverage");
    session.disconnect();
  }
}
