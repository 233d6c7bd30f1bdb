/** So many cases of a property: `FC_TIMES` times the usual ones, as `npm run test:nightly` sets it. */
export function cases(usual: number): number {
  return usual * Number(process.env.FC_TIMES ?? 1);
}
