/** The pairs of a flat list, as Redis answers with fields and values or members and scores; a last one alone is left out. */
export function* pairs(flat: readonly string[]): Generator<readonly [string, string]> {
  for (let i = 0; i + 1 < flat.length; i += 2) yield [flat[i] ?? "", flat[i + 1] ?? ""];
}
