/** Third-party programs of the long tests. `npm run test:doors` installs them at pinned versions, outside of the lock file. */
import { existsSync } from "node:fs";
import { join } from "node:path";

const PLACE = join(import.meta.dirname, "..", "..", "node_modules", ".cache", "doors", "node_modules");

/** Returns the path of a file in `@modelcontextprotocol`'s packages. Throws if it is not installed. */
export function toolPath(name: string): string {
  const path = join(PLACE, "@modelcontextprotocol", name);
  if (existsSync(path)) return path;
  throw new Error(`${name} is not installed: npm run test:doors does that.`);
}
