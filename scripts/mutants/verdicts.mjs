/**
 * What was found out about each mutant, in a file of the repository: a verdict lasts as long as what it was about.
 *
 * 1. A verdict stands while the mutant, its tests, and the passage of the source that it breaks are unchanged.
 * 2. A passage reaches from one blank line before text of the left edge, or one step from it, to the next: a function, a method,
 *    a part of a script or of a long function. Lines that hold only a comment do not count.
 * 3. The gate is shut by a survivor that no reason excuses, and by a mutant of a promise of the README that is not known to be killed.
 */
import { createHash } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./test-runs.mjs";

const FILE = "test/mutants/verdicts.json";
/** A blank line before text that stands at most one step from the left edge. */
const BORDER = /\n\n(?= {0,2}\S)/g;

/** A line of TypeScript or Lua that holds only a comment. */
const COMMENT_LINE = /^\s*(?:\/\/|\/\*|\*[ /]|\*$|--).*\n?/gm;

/** The part of a text around something, without comments. */
function passageOf(text, something) {
  const at = text.indexOf(something);
  const borders = [...text.matchAll(BORDER)].map(({ index }) => index);
  const from = borders.findLast((border) => border <= at) ?? 0;
  const to = borders.find((border) => border >= at + something.length) ?? text.length;
  return text.slice(from, to).replace(COMMENT_LINE, "");
}

function digestOf({ file, find, replace, tests, title = "" }, textOf) {
  const about = [file, find, replace, title, passageOf(textOf(file), find)];
  for (const test of tests.toSorted()) about.push(test, textOf(test));
  return createHash("sha256").update(JSON.stringify(about)).digest("hex").slice(0, 12);
}

/** The verdicts of the file of a tree. What is asked is answered for the tree as it was when it was asked about first. */
export function openVerdicts(root = ROOT, list = FILE) {
  const textOf = (path) => readFileSync(join(root, path), "utf8");
  const stored = JSON.parse(textOf(list));
  const digests = new Map();
  const digest = (mutant) => {
    if (!digests.has(mutant.id)) digests.set(mutant.id, digestOf(mutant, textOf));
    return digests.get(mutant.id);
  };
  return {
    /** `killed` or `survived`, when that was found out about what stands in the tree; otherwise undefined. */
    standing(mutant) {
      const [verdict, about] = (stored[mutant.id] ?? "").split(" ");
      return about === digest(mutant) ? verdict : undefined;
    },
    note(mutant, verdict) {
      stored[mutant.id] = `${verdict} ${digest(mutant)}`;
    },
    /** Writes the file; ids that no list holds any more leave it. */
    save(mutants) {
      const ids = mutants.map(({ id }) => id).sort();
      const lasting = ids.filter((id) => stored[id]).map((id) => [id, stored[id]]);
      const file = join(root, list);
      writeFileSync(`${file}.new`, `${JSON.stringify(Object.fromEntries(lasting), undefined, 2)}\n`);
      renameSync(`${file}.new`, file);
    },
  };
}

/** The list of the mutants that the rows of the README's table of promises name. */
const PROMISES = "promises";

/**
 * The mutants by their standing verdicts. What shuts the gate: `inexcusable`, survivors without a reason, and `unproven`, those of
 * promises that are not known to be killed. `unjudged`: those of which no verdict stands.
 */
export function gateOf(mutants, standing) {
  const having = (verdict) => mutants.filter((mutant) => standing(mutant) === verdict);
  const isPromised = ({ area }) => area === PROMISES;
  const survived = having("survived");
  return {
    killed: having("killed"),
    survived,
    inexcusable: survived.filter(({ reason }) => !reason),
    unproven: mutants.filter((mutant) => isPromised(mutant) && standing(mutant) !== "killed"),
    unjudged: having(undefined),
  };
}
