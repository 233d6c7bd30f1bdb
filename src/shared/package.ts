/** This package as it is installed: its version, and where its files are. A bundler copies only its code. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { SubagentError } from "./errors.ts";

const Manifest = z.object({ name: z.literal("subagent-queue"), version: z.string() });
const BUNDLED =
  "This program was bundled together with subagent-queue, but a worker or an API needs the files of the package: tell the bundler that subagent-queue is external, and install it beside the program.";

/** Returns the path of a file or folder of this package: `src/shared/` and `dist/bundle/` are two levels below its folder. */
export function packagePath(path: string): string {
  return fileURLToPath(new URL(path, new URL("../../", import.meta.url)));
}

/** Returns the version, e.g. `0.1.0`; each call reads it again. Throws `setup_failed` as {@link refuseBundled} does. */
export function packageVersion(): string {
  try {
    return Manifest.parse(JSON.parse(readFileSync(packagePath("package.json"), "utf8"))).version;
  } catch (error) {
    throw new SubagentError("setup_failed", BUNDLED, {}, error);
  }
}

/**
 * Throws `setup_failed` if a bundler has moved this code away from its package. A parent works there; workers and APIs start
 * programs and send files that lie beside the code.
 */
export function refuseBundled(): void {
  packageVersion();
}
