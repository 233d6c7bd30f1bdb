/** The version of this package, as its package.json says. */
import { readFileSync } from "node:fs";
import { z } from "zod";

const Package = z.object({ version: z.string() });

/** Returns the version, e.g. `0.1.0`; each call reads it again. */
export function packageVersion(): string {
  return Package.parse(JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")))
    .version;
}
