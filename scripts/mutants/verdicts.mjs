/**
 * The verdicts about the mutants, in a file of the repository.
 *
 * 1. A verdict is valid while the mutant, its tests, and the passage of the source that it breaks are unchanged.
 * 2. A passage extends from one blank line before text with no indent or one level to the next such line: a function, a method,
 *    a part of a script or of a long function. Lines with only a comment do not count.
 * 3. The gate fails for a survivor without a reason, and for a mutant of a README promise without a valid verdict `killed`.
 */
import { createHash } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./test-runs.mjs";

const FILE = "test/mutants/verdicts.json";
/** A blank line before text with at most one level of indent. */
const BORDER = /\n\n(?= {0,2}\S)/g;

/** A line of TypeScript or Lua that holds only a comment; not code behind a comment, nor `--option` in a text. */
const COMMENT_LINE = /^\s*(?:\/\/.*|\/\*(?:(?!\*\/).)*(?:\*\/)?|\*(?: .*|\/)?|--(?: .*)?)[ \t]*\n/gm;

/** Returns the passage of a text that contains `something`, without comments. */
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

/** Opens the verdicts of a tree. A mutant's digest is computed at its first use, and later changes of the tree do not count. */
export function openVerdicts(root = ROOT, list = FILE) {
  const textOf = (path) => readFileSync(join(root, path), "utf8");
  const stored = JSON.parse(textOf(list));
  const digests = new Map();
  const digest = (mutant) => {
    if (!digests.has(mutant.id)) digests.set(mutant.id, digestOf(mutant, textOf));
    return digests.get(mutant.id);
  };
  return {
    /** Returns `killed` or `survived` if that verdict is valid for the tree; else undefined. */
    standing(mutant) {
      const [verdict, about] = (stored[mutant.id] ?? "").split(" ");
      return about === digest(mutant) ? verdict : undefined;
    },
    note(mutant, verdict) {
      stored[mutant.id] = `${verdict} ${digest(mutant)}`;
    },
    /** Writes the file, without ids that no list has. */
    save(mutants) {
      const ids = mutants.map(({ id }) => id).sort();
      const lasting = ids.filter((id) => stored[id]).map((id) => [id, stored[id]]);
      const file = join(root, list);
      writeFileSync(`${file}.new`, `${JSON.stringify(Object.fromEntries(lasting), undefined, 2)}\n`);
      renameSync(`${file}.new`, file);
    },
  };
}

/** Name of the list with the mutants of the README's table of promises. */
const PROMISES = "promises";

/**
 * Groups the mutants by their valid verdicts. Two groups make the gate fail: `inexcusable`, survivors without a reason, and
 * `unproven`, mutants of promises without a verdict `killed`. `unjudged`: mutants without a valid verdict.
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
