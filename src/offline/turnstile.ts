/** Lets so many in at a time; the others wait in the order in which they came. */

/** See the module's sentence. */
export interface Turnstile {
  /** Resolves when there is a place; whoever has it calls the answer once, when it is free again. */
  enter(): Promise<() => void>;
}

/** A turnstile with `places`; undefined: any number. */
export function createTurnstile(places: number | undefined): Turnstile {
  const waiting: (() => void)[] = [];
  let free = places ?? Number.POSITIVE_INFINITY;
  const leave = () => {
    const next = waiting.shift();
    if (next) next();
    else free += 1;
  };
  return {
    async enter() {
      if (free > 0) free -= 1;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      return leave;
    },
  };
}
