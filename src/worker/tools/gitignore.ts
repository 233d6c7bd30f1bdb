/** Which entries of a tree its `.gitignore` files leave out, each counting for the directory it lies in and below. */
import ignore, { type Ignore } from "ignore";
import { openNamed, readHead } from "./confined-file.ts";
import type { Directory } from "./confined-path.ts";

const FILE = ".gitignore";
/** What lies beyond is not read: rules are short. */
const MAX_BYTES = 64 * 1024;

/** The rules that hold in one directory of a walk, the outermost first. */
export type IgnoreRules = readonly { readonly depth: number; readonly rules: Ignore }[];

/** The rules in force in `directory`: those of the directories above it and its own, where it has some. */
export async function rulesIn(
  directory: Directory,
  names: readonly string[],
  above: IgnoreRules,
): Promise<IgnoreRules> {
  if (!names.includes(FILE)) return above;
  const file = await openNamed(directory, FILE, FILE).catch(() => undefined);
  if (!file) return above;
  try {
    const text = (await readHead(file, MAX_BYTES)).toString("utf8");
    return [...above, { depth: directory.segments.length, rules: ignore().add(text) }];
  } catch {
    return above;
  } finally {
    await file.handle.close();
  }
}

/** Whether the innermost rule that speaks of an entry of `directory` leaves it out; directories end in a slash. */
export function isIgnored(rules: IgnoreRules, directory: Directory, name: string): boolean {
  for (const { depth, rules: own } of rules.toReversed()) {
    const { ignored, unignored } = own.test([...directory.segments.slice(depth), name].join("/"));
    if (ignored || unignored) return ignored;
  }
  return false;
}
