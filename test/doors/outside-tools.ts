/** Programs of others that only the long forms run; `npm run test:doors` installs them, pinned, outside of the lock file. */
import { existsSync } from "node:fs";
import { join } from "node:path";

const PLACE = join(import.meta.dirname, "..", "..", "node_modules", ".cache", "doors", "node_modules");

/** The path of a file of `@modelcontextprotocol`'s packages. */
export function toolPath(name: string): string {
  const path = join(PLACE, "@modelcontextprotocol", name);
  if (existsSync(path)) return path;
  throw new Error(`${name} is not installed: npm run test:doors does that.`);
}
