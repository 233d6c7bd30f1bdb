/** Every rule that the architecture test keeps, over everything it looks at. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { findClocks, findConsole, findEnvironmentReads, findSignalHandlers } from "./ambient.ts";
import { findCycles } from "./cycles.ts";
import { findUndocumented } from "./documented.ts";
import { findAny, findBareThrows, findDoubleCasts, findSuppressions } from "./escapes.ts";
import { findDrawers, findUnmirroredTests } from "./layout.ts";
import { findUnnamedSlots, type LuaFile } from "./lua.ts";
import { findForbiddenImports, findSideDoors } from "./rooms.ts";
import { findLongFiles, findLongFunctions } from "./size.ts";
import { listFiles, readSources, type Source, type Violation } from "./source.ts";

/** What the rules look at. */
export interface Tree {
  /** TypeScript below src. */
  sources: readonly Source[];
  /** Lua below src. */
  lua: readonly LuaFile[];
  /** All paths below src and test. */
  paths: readonly string[];
}

/** Each rule by the sentence it keeps. */
export const RULES = {
  "rooms import only what the house allows": (tree) => findForbiddenImports(tree.sources),
  "every package comes in by its one door": (tree) => findSideDoors(tree.sources),
  "no file can import itself by any way round": (tree) => findCycles(tree.sources),
  "nothing has the type any": (tree) => findAny(tree.sources),
  "nothing is cast by way of unknown": (tree) => findDoubleCasts(tree.sources),
  "no comment silences the compiler": (tree) => findSuppressions(tree.sources),
  "no bare Error is thrown": (tree) => findBareThrows(tree.sources),
  "no file has more than 250 lines": (tree) => findLongFiles(tree.sources),
  "no function has more than 50 lines": (tree) => findLongFunctions(tree.sources),
  "every export is documented": (tree) => findUndocumented(tree.sources),
  "only config reads the environment": (tree) => findEnvironmentReads(tree.sources),
  "only the clock knows the time": (tree) => findClocks(tree.sources),
  "only the service handles signals": (tree) => findSignalHandlers(tree.sources),
  "only the command line talks to the console": (tree) => findConsole(tree.sources),
  "every Lua script names its keys and arguments": (tree) => findUnnamedSlots(tree.lua),
  "every unit test mirrors a source": (tree) => findUnmirroredTests(tree.paths),
  "src has no drawers": (tree) => findDrawers(tree.paths),
} satisfies Record<string, (tree: Tree) => Violation[]>;

/** The sentence of a rule. */
export type RuleName = keyof typeof RULES;

/** All rules, in the order in which they are reported. */
export const RULE_NAMES = Object.keys(RULES) as RuleName[];

/** Reads and parses the repository at `root`. */
export function readTree(root: string): Tree {
  const paths = [...listFiles(root, "src"), ...listFiles(root, "test")];
  const lua = paths.filter((path) => path.startsWith("src/") && path.endsWith(".lua"));
  return {
    sources: readSources(root, "src"),
    lua: lua.map((path) => ({ path, text: readFileSync(join(root, path), "utf8") })),
    paths,
  };
}
