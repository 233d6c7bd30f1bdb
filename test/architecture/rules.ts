/** All rules of the architecture test, and the files they check. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, posix } from "node:path";
import {
  findChance,
  findClocks,
  findConsole,
  findEnvironmentReads,
  findHandedOn,
  findHandMadeInstallations,
  findProcessUse,
  findSignalHandlers,
} from "./ambient.ts";
import { findCycles } from "./cycles.ts";
import { findUndocumented } from "./documented.ts";
import {
  findAny,
  findBareErrors,
  findCastsFromUnknown,
  findClaimedAny,
  findHandedParsers,
  findSuppressions,
} from "./escapes.ts";
import { findForbiddenImports, findSideDoors } from "./imports.ts";
import { findDrawers, findUnmirroredTests, findUnreadFiles } from "./layout.ts";
import { findUnnamedInput, type LuaFile } from "./lua.ts";
import { findHiddenLoads, findNamelessExports, findReExports } from "./modules.ts";
import { openProgram } from "./program.ts";
import { findUnexportedTypes } from "./public.ts";
import { findImpure } from "./pure.ts";
import { findLargeRooms, findLongFiles, findLongFunctions } from "./size.ts";
import type { Source, Violation } from "./source.ts";

/** The files that the rules check. */
export interface Tree {
  /** All files below src that the compiler reads, whatever their extension. */
  sources: readonly Source[];
  /** Lua files below src. */
  lua: readonly LuaFile[];
  /** All paths below src and test. */
  paths: readonly string[];
}

/** The rules, each under the sentence it enforces. */
export const RULES = {
  "rooms import only what the house allows": (tree) => findForbiddenImports(tree.sources),
  "every package comes in by its one door": (tree) => findSideDoors(tree.sources),
  "no file can import itself by any way round": (tree) => findCycles(tree.sources),
  "code comes in by import statements alone": (tree) => findHiddenLoads(tree.sources),
  "only the package's doors re-export": (tree) => findReExports(tree.sources),
  "what is exported has a name": (tree) => findNamelessExports(tree.sources),
  "an entry exports every type that its exports name": (tree) => findUnexportedTypes(tree.sources),
  "nothing has the type any": (tree) => findAny(tree.sources),
  "nothing is cast from unknown": (tree) => findCastsFromUnknown(tree.sources),
  "what has the type any is taken as unknown": (tree) => [
    ...findClaimedAny(tree.sources),
    ...findHandedParsers(tree.sources),
  ],
  "no comment silences the compiler": (tree) => findSuppressions(tree.sources),
  "no bare error is made": (tree) => findBareErrors(tree.sources),
  "no file has more than 400 lines": (tree) => findLongFiles(tree.sources),
  "the doctor and the offline rules stay small": (tree) => findLargeRooms(tree.sources),
  "no function has more than 50 lines": (tree) => findLongFunctions(tree.sources),
  "every export is documented": (tree) => findUndocumented(tree.sources),
  "only config reads the environment": (tree) => findEnvironmentReads(tree.sources),
  "only the clock knows the time": (tree) => findClocks(tree.sources),
  "one file composes an installation": (tree) => findHandMadeInstallations(tree.sources),
  "chance is a parameter": (tree) => findChance(tree.sources),
  "the loop is pure": (tree) => findImpure(tree.sources),
  "nothing ambient is handed on whole": (tree) => findHandedOn(tree.sources),
  "only the service handles signals": (tree) => findSignalHandlers(tree.sources),
  "only the command line talks to the console": (tree) => findConsole(tree.sources),
  "only the command line owns the process": (tree) => findProcessUse(tree.sources),
  "Lua reads its input by name": (tree) => findUnnamedInput(tree.lua),
  "every unit test mirrors a source": (tree) => findUnmirroredTests(tree.paths),
  "src has no drawers": (tree) => findDrawers(tree.paths),
  "every file of src is read by the compiler or is Lua": (tree) => findUnreadFiles(tree.paths, tree.sources),
} satisfies Record<string, (tree: Tree) => Violation[]>;

/** The sentence of a rule. */
export type RuleName = keyof typeof RULES;

/** All rules, in the order in which they are reported. */
export const RULE_NAMES = Object.keys(RULES) as RuleName[];

/** Reads the repository at `root` as its build does. `close` ends the compiler. */
export function readTree(root: string): Tree & { close(): void } {
  const program = openProgram({ root, config: join(root, "tsconfig.build.json") });
  const paths = [...listFiles(root, "src"), ...listFiles(root, "test")];
  const lua = paths.filter((path) => path.startsWith("src/") && path.endsWith(".lua"));
  return {
    sources: program.sources,
    lua: lua.map((path) => ({ path, text: readFileSync(join(root, path), "utf8") })),
    paths,
    close: program.close,
  };
}

function listFiles(root: string, folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .map((name) => posix.join(folder, name))
    .filter((path) => statSync(join(root, path)).isFile())
    .sort();
}
