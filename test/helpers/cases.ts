import fc from "fast-check";
import { expect } from "vitest";

const [FIRST_SURROGATE, SURROGATES] = [0xd800, 0x800];

/** Returns the number of cases of a property: `usual` times `FC_TIMES` (default 1), which `npm run test:nightly` sets. */
export function cases(usual: number): number {
  return usual * Number(process.env.FC_TIMES ?? 1);
}

/** `expect(value).toBe(wanted)` for comparisons by the ten thousand: what vitest does for each costs more than most of them. */
export function expectSame<T>(value: T, wanted: T): void {
  if (!Object.is(value, wanted)) expect(value).toBe(wanted);
}

/** Any character except a lone surrogate. `fc.string({ unit: "binary" })` draws the same, but builds a table of a million. */
export const anyCharacter: fc.Arbitrary<string> = fc
  .integer({ min: 0, max: 0x10_ffff - SURROGATES })
  .map((n) => String.fromCodePoint(n < FIRST_SURROGATE ? n : n + SURROGATES));
