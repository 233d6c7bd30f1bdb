/** Computes the verdicts of a soak from its samples. Pure. */

/** A measurement. `x`: hours since the beginning. */
export interface Point {
  x: number;
  y: number;
}

/** A rate of change per hour, with the bounds of its 95 % confidence interval. */
export interface Slope {
  perHour: number;
  lower: number;
  upper: number;
}

/** A verdict: its subject, result and figures. */
export interface Verdict {
  what: string;
  verdict: "holds" | "fails" | "too short to judge";
  figure: string;
}

/** Number of buckets whose medians replace the points, because neighbouring points are not independent. */
const BUCKETS = 60;
const Z_95 = 1.96;
/** Share of the samples (0–1) left out at each end when the swing about a trend is measured. */
const OUTLIERS = 0.05;
/** A growth of this size is a leak even in a short time. */
const GROSS_GROWTH_MB = 48;
/** Minimum length of a window: a slope over less is that of the warm-up. */
const SHORTEST_WINDOW_HOURS = 0.5;
const FEWEST_POINTS = 8;

/** Returns the median; NaN if there are no values. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

function buckets(points: readonly Point[]): Point[] {
  const size = Math.max(1, Math.ceil(points.length / BUCKETS));
  return Array.from({ length: Math.ceil(points.length / size) }, (_, i) => {
    const slice = points.slice(i * size, (i + 1) * size);
    return { x: median(slice.map(({ x }) => x)), y: median(slice.map(({ y }) => y)) };
  });
}

/** Returns the median of all slopes between two points (Theil–Sen) with its bounds; undefined for fewer than three points. */
export function robustSlope(points: readonly Point[]): Slope | undefined {
  const gathered = buckets(points);
  const n = gathered.length;
  if (n < 3) return undefined;
  const slopes = gathered
    .flatMap((a, i) => gathered.slice(i + 1).map((b) => (b.y - a.y) / (b.x - a.x)))
    .filter(Number.isFinite)
    .sort((a, b) => a - b);
  const spread = Z_95 * Math.sqrt((n * (n - 1) * (2 * n + 5)) / 18);
  const at = (rank: number) =>
    slopes[Math.min(slopes.length - 1, Math.max(0, Math.round(rank)))] ?? Number.NaN;
  const lower = at((slopes.length - spread) / 2);
  const upper = at((slopes.length + spread) / 2);
  return { perHour: median(slopes), lower, upper };
}

/** Returns the width of the range of 90 % of the points without the trend, i.e. the normal fluctuation. */
function swingAbout(points: readonly Point[], { perHour }: Slope): number {
  const left = points.map(({ x, y }) => y - perHour * x).sort((a, b) => a - b);
  const at = (share: number) => left[Math.round(share * (left.length - 1))] ?? Number.NaN;
  return at(1 - OUTLIERS) - at(OUTLIERS);
}

/**
 * Judges whether memory grows by at most `limitPerHour` MB per hour after the warm-up. `y` in MB. Resident memory fluctuates by tens
 * of MB over minutes as V8 returns pages, so a growth no larger than this swing is no failure.
 */
export function judgeMemory(what: string, points: readonly Point[], limitPerHour: number): Verdict {
  const slope = robustSlope(points);
  const [first, last] = [points[0], points.at(-1)];
  if (!slope || !first || !last || points.length < FEWEST_POINTS) {
    return { what, verdict: "too short to judge", figure: `${points.length} samples` };
  }
  const hours = last.x - first.x;
  const growthMb = slope.perHour * hours;
  const [perHour, lower, upper] = [slope.perHour, slope.lower, slope.upper].map((n) => n.toFixed(2));
  const swingMb = swingAbout(points, slope);
  const figure =
    `${perHour} MB/h (95 %: ${lower} to ${upper}) over ${(hours * 60).toFixed(1)} min, ` +
    `swing ${swingMb.toFixed(1)} MB`;
  const gross = slope.lower > limitPerHour && growthMb > GROSS_GROWTH_MB;
  if (hours < SHORTEST_WINDOW_HOURS) return { what, verdict: gross ? "fails" : "too short to judge", figure };
  if (slope.lower > limitPerHour && growthMb > swingMb) return { what, verdict: "fails", figure };
  return { what, verdict: slope.upper <= limitPerHour ? "holds" : "too short to judge", figure };
}

/** Judges whether a fluctuating number has stayed level, by the medians of the first and the last quarter. */
export function judgeFlat(what: string, values: readonly number[], tolerance: number): Verdict {
  const quarter = Math.floor(values.length / 4);
  if (quarter < 2) return { what, verdict: "too short to judge", figure: `${values.length} samples` };
  const [before, after] = [median(values.slice(0, quarter)), median(values.slice(-quarter))];
  const verdict = after - before <= tolerance ? "holds" : "fails";
  return {
    what,
    verdict,
    figure: `${before} in the first quarter, ${after} in the last, most ${Math.max(...values)}`,
  };
}

/** A process's event-loop lag in one window, with the lag of an idle process. */
export interface LagWindow {
  lagMs: number;
  idleLagMs: number;
}

/** Judges whether the lag stays below `limitMs` in 99 % of the windows in which an idle process lagged less than half of it. */
export function judgeLag(what: string, windows: readonly LagWindow[], limitMs: number): Verdict {
  const quiet = windows.filter(({ idleLagMs }) => idleLagMs < limitMs / 2);
  const lags = quiet.map(({ lagMs }) => lagMs).sort((a, b) => a - b);
  if (quiet.length < FEWEST_POINTS) {
    const figure = `${quiet.length} of ${windows.length} windows on a machine that was not overloaded`;
    return { what, verdict: "too short to judge", figure };
  }
  const over = lags.filter((ms) => ms >= limitMs).length;
  const figure =
    `p99 ${median(lags).toFixed(1)} ms in the median window, ${(lags.at(-1) ?? 0).toFixed(1)} ms in the worst; ` +
    `${over} of ${lags.length} at ${limitMs} ms or more (${windows.length - quiet.length} left out: machine overloaded)`;
  return { what, verdict: over <= Math.max(1, lags.length / 100) ? "holds" : "fails", figure };
}
