/** Medians and tables: the form in which results are shown. */

/** Returns the middle value, of an even number of values the upper of the two; undefined if there is none. */
export function median(values: readonly number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[values.length >> 1];
}

/** Returns the median, with minimum and maximum if there are several values. */
export function span(found: readonly (number | undefined)[]): string {
  const values = found.filter((value) => value !== undefined);
  const middle = median(values);
  if (middle === undefined) return "–";
  if (values.length === 1) return short(middle);
  return `${short(middle)} (${short(Math.min(...values))}–${short(Math.max(...values))})`;
}

function short(value: number): string {
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

/** Returns the lines of a Markdown table. */
export function table(names: readonly string[], rows: readonly (readonly (string | number)[])[]): string[] {
  return [names, names.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
}

/** The values of one subject, by round; a round in which it was not measured has none. */
export type Rounds = ReadonlyMap<number, number>;

/** Returns `values` as ratios to those of `base` in the same round. */
export function ratios(values: Rounds, base: Rounds): number[] {
  return [...values].flatMap(([round, value]) => {
    const whole = base.get(round);
    return whole === undefined ? [] : [value / whole];
  });
}

/**
 * Returns the names of a round in the order in which they are measured. Every other pair of rounds runs backwards, so that
 * none always follows the same one; one that is measured every second or third round also changes its direction.
 */
export function inTurn<T>(subjects: readonly T[], round: number, everyOf: (subject: T) => number): T[] {
  const due = subjects.filter((subject) => round % everyOf(subject) === 0);
  return (round >> 1) % 2 === 0 ? due : due.toReversed();
}
