/** The files that put the product into containers, read from the repository's root. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "..", "..");

export function readRepositoryFile(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}
