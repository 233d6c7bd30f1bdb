import fc from "fast-check";

const [FIRST_SURROGATE, SURROGATES] = [0xd800, 0x800];

/** So many cases of a property: `FC_TIMES` times the usual ones, as `npm run test:nightly` sets it. */
export function cases(usual: number): number {
  return usual * Number(process.env.FC_TIMES ?? 1);
}

/** Any character but half a one. `fc.string({ unit: "binary" })` draws the same, and first makes a table of all million of them. */
export const anyCharacter: fc.Arbitrary<string> = fc
  .integer({ min: 0, max: 0x10_ffff - SURROGATES })
  .map((n) => String.fromCodePoint(n < FIRST_SURROGATE ? n : n + SURROGATES));
