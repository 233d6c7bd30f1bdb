/** Finds import cycles, `import type` included: two files that need each other should be one file, or share a third. */
import type { Source, Violation } from "./source.ts";

/** Returns one violation per import cycle, each with a shortest path. */
export function findCycles(sources: readonly Source[]): Violation[] {
  const graph = new Map(sources.map(({ path, imports }) => [path, imports] as const));
  const named = new Set<string>();
  return sources.flatMap(({ path }) => {
    const way = wayRound(path, (at) => (graph.get(at) ?? []).flatMap(({ target }) => target ?? []));
    if (way === undefined || named.has([...way].sort().join())) return [];
    named.add([...way].sort().join());
    const line = graph.get(path)?.find(({ target }) => target === (way[1] ?? path))?.line ?? 0;
    return [{ path, line, message: `import cycle: ${[...way, path].join(" -> ")}` }];
  });
}

/** Returns the files of a shortest cycle through `start`, beginning with `start`; undefined if there is none. */
function wayRound(start: string, next: (path: string) => string[]): string[] | undefined {
  const cameFrom = new Map<string, string>();
  const queue = [start];
  for (let at = queue.shift(); at !== undefined; at = queue.shift()) {
    for (const target of next(at)) {
      if (target === start) return trace(at, start, cameFrom);
      if (cameFrom.has(target)) continue;
      cameFrom.set(target, at);
      queue.push(target);
    }
  }
  return undefined;
}

function trace(end: string, start: string, cameFrom: ReadonlyMap<string, string>): string[] {
  const way = [end];
  for (let at = end; at !== start; ) {
    at = cameFrom.get(at) ?? start;
    way.unshift(at);
  }
  return way;
}
