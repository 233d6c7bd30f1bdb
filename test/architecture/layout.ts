/** Rules for paths: unit tests mirror src, and src has no catch-all folders or files ("drawers"). */
import { posix } from "node:path";
import type { Source, Violation } from "./source.ts";

const DRAWERS = new Set(["utils", "util", "helpers", "helper", "common", "misc", "types", "lib", "stuff"]);

/**
 * Finds unit tests without the source they mirror. `test/unit/a/b.test.ts` belongs to `src/a/b.ts`, and so does
 * `test/unit/a/b.attacks.test.ts`: a long test may be split by aspect.
 */
export function findUnmirroredTests(paths: readonly string[]): Violation[] {
  const files = new Set(paths);
  return paths.flatMap((path) => {
    if (!path.startsWith("test/unit/") || !path.endsWith(".test.ts")) return [];
    const noun = posix.basename(path).split(".")[0] ?? "";
    const source = posix.join("src", posix.dirname(path).slice("test/unit".length), `${noun}.ts`);
    if (files.has(source)) return [];
    return [{ path, line: 1, message: `mirrors ${source}, which does not exist` }];
  });
}

/** Finds files and folders of src whose name does not state their role. */
export function findDrawers(paths: readonly string[]): Violation[] {
  return paths.flatMap((path) => {
    if (!path.startsWith("src/")) return [];
    const drawer = path.split("/").find((part) => DRAWERS.has(part.split(".")[0] ?? ""));
    return drawer === undefined ? [] : [{ path, line: 1, message: `"${drawer}" is a drawer; name the role` }];
  });
}

/** Finds files of src that are neither read by the compiler nor Lua: no rule would check their code. */
export function findUnreadFiles(paths: readonly string[], sources: readonly Source[]): Violation[] {
  const read = new Set(sources.map(({ path }) => path));
  return paths.flatMap((path) => {
    if (!path.startsWith("src/") || path.endsWith(".lua") || read.has(path)) return [];
    return [{ path, line: 1, message: "src holds what the compiler reads, and Lua" }];
  });
}
