/** A seeded random generator: the same seed and the same calls in the same order give the same results. */
export interface Seeded {
  /** Returns a number in [0, 1). */
  next(): number;
  /** Returns an integer in [from, to]. */
  between(from: number, to: number): number;
  /** Returns one of the items; throws if there are none. */
  pick<T>(items: readonly T[]): T;
  /** Returns the items in random order. */
  shuffled<T>(items: readonly T[]): T[];
}

/** Returns a generator for `seed` (mulberry32). */
export function seeded(seed: number): Seeded {
  let state = seed;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (from: number, to: number) => from + Math.floor(next() * (to - from + 1));
  return {
    next,
    between,
    pick<T>(items: readonly T[]): T {
      const index = between(0, items.length - 1);
      if (items.length === 0) throw new Error("nothing to pick from");
      return items[index] as T;
    },
    shuffled<T>(items: readonly T[]): T[] {
      const order = items.map((item) => ({ item, rank: next() }));
      return order.sort((a, b) => a.rank - b.rank).map(({ item }) => item);
    },
  };
}
