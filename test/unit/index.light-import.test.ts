import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

/** A static import or re-export of values: what it names, and from where. */
const LOADS = /^(?:import|export) (?!type )(?:([^";]*?) from )?"([^"]+)";/gm;
const ONLY_TYPES = /^\{\s*(?:type [^,}]+,?\s*)+\}$/;

/** Packages that loading a file loads at once, by name; `seen`: the files of ours. */
function packagesLoadedBy(path: string, seen: Set<string> = new Set()): Set<string> {
  const packages = new Set<string>();
  if (seen.has(path)) return packages;
  seen.add(path);
  for (const [, names = "", from = ""] of readFileSync(path, "utf8").matchAll(LOADS)) {
    if (ONLY_TYPES.test(names) || from.startsWith("node:")) continue;
    if (!from.startsWith(".")) packages.add(from);
    else for (const name of packagesLoadedBy(join(dirname(path), from), seen)) packages.add(name);
  }
  return packages;
}

/** Files of ours that importing the parent's side may load; each costs about a millisecond. */
const MOST_FILES = 75;

test("importing the parent's side loads zod and few files; what talks to Redis is loaded with its first use, pino with the first logger, BullMQ with the first wake", () => {
  const files = new Set<string>();
  expect([...packagesLoadedBy("src/index.ts", files)]).toEqual(["zod"]);
  expect(files.size).toBeLessThanOrEqual(MOST_FILES);
  const connected = packagesLoadedBy("src/producer/client-resources.ts");
  expect(connected).toContain("ioredis");
  expect(connected).not.toContain("bullmq");
});
