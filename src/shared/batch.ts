/** Work on many items in batches: Redis serves other clients between two of them. Owns no state. */

/** Runs `work` on every item, at most `size` in parallel; returns the results in the order of the items. */
export async function inBatches<Item, Result>(
  items: readonly Item[],
  size: number,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let start = 0; start < items.length; start += size) {
    results.push(...(await Promise.all(items.slice(start, start + size).map(work))));
  }
  return results;
}
