/** How long a verdict lasts: as long as the mutant, the passage it breaks, and its tests read as they did. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { gateOf, openVerdicts } from "../../../scripts/mutants/verdicts.mjs";
import { closeAtEnd } from "../../helpers/cleanup.ts";

const SOURCE = `/** Adds up. */
export function sum(a, b) {
  if (a > 9) throw new Error("too much");
  return (
    /** The first. */ a +
    b
  );
}
const USAGE = \`
  --most  nine\`;

/** Something else. */
export const other = 1;
`;
const killed = {
  id: "sum-unbounded",
  promise: "Nothing above nine is added.",
  file: "sum.js",
  find: "if (a > 9)",
  replace: "if (false)",
  tests: ["one.test.js", "two.test.js"],
};

/** A tree with a source, two tests and what was found out about one mutant. */
function tree() {
  const root = mkdtempSync(join(tmpdir(), "verdicts-"));
  closeAtEnd(() => rmSync(root, { recursive: true }));
  const write = (path: string, text: string) => writeFileSync(join(root, path), text);
  const list = () => readFileSync(join(root, "verdicts.json"), "utf8");
  write("sum.js", SOURCE);
  write("one.test.js", "expects a throw");
  write("two.test.js", "expects a sum");
  write("verdicts.json", "{}");
  const open = () => openVerdicts(root, "verdicts.json");
  const verdicts = open();
  verdicts.note(killed, "killed");
  verdicts.save([killed]);
  return { write, list, open };
}

test("a verdict stands for whoever opens the list later", () => {
  expect(tree().open().standing(killed)).toBe("killed");
});

test.each<[string, (write: (path: string, text: string) => void) => void]>([
  [
    "another passage of its source",
    (write) => write("sum.js", SOURCE.replace("Something", "Anything").replace("other = 1", "other = 2")),
  ],
  ["a test that it does not name", (write) => write("three.test.js", "new")],
  [
    "the comment above its function",
    (write) => write("sum.js", SOURCE.replace("Adds up", "Returns\n * the sum")),
  ],
])("a verdict outlives a change of %s", (_what, change) => {
  const { write, open } = tree();
  change(write);
  expect(open().standing(killed)).toBe("killed");
});

test.each([
  ["its line", "if (a > 9)", "  if (a > 9)"],
  ["another line of its function", "    b\n", "    a\n"],
  ["code behind a comment", "*/ a +", "*/ b +"],
  ["text that begins like a comment of Lua", "--most  nine", "--most  eight"],
])("a verdict falls with a change of %s", (_what, before, after) => {
  const { write, open } = tree();
  write("sum.js", SOURCE.replace(before, after));
  expect(open().standing(killed)).toBeUndefined();
});

test.each(["one.test.js", "two.test.js"])("a verdict falls with a change of its test %s", (path) => {
  const { write, open } = tree();
  write(path, "expects nothing");
  expect(open().standing(killed)).toBeUndefined();
});

test.each([
  { replace: "if (a < 9)" },
  { find: "(a > 9)" },
  { title: "one of them" },
  { tests: ["one.test.js"] },
  { id: "another-mutant" },
])("a verdict is about this mutant, not about one with %j", (other) => {
  expect(
    tree()
      .open()
      .standing({ ...killed, ...other }),
  ).toBeUndefined();
});

test("what is asked is answered for the tree as it was when it was asked about first", () => {
  const { write, open } = tree();
  const verdicts = open();
  expect(verdicts.standing(killed)).toBe("killed");
  write("one.test.js", "expects nothing");
  expect(verdicts.standing(killed)).toBe("killed");
  // Found out about the tree as it was: for the one that is there now it says nothing.
  verdicts.note(killed, "survived");
  verdicts.save([killed]);
  expect(open().standing(killed)).toBeUndefined();
});

test("the list is in the order of the ids, whatever the order of finding out, and forgets mutants that are gone", () => {
  const { list, open } = tree();
  const [first, last] = [
    { ...killed, id: "a-first" },
    { ...killed, id: "z-last" },
  ];
  const verdicts = open();
  for (const mutant of [last, first]) verdicts.note(mutant, "survived");
  verdicts.save([last, first]);
  expect(Object.keys(JSON.parse(list()))).toEqual(["a-first", "z-last"]);
  expect(list()).toMatch(/^\{\n {2}"a-first": "survived [0-9a-f]{12}",\n.*\n\}\n$/);
});

test("the gate is shut by a survivor without a reason, and by a promise whose mutant is not known to be killed", () => {
  const verdicts: Readonly<Record<string, string>> = {
    ...{ dead: "killed", alive: "survived", excused: "survived" },
    ...{ kept: "killed", "kept-badly": "survived" },
  };
  const mutants = [
    { id: "dead", area: "loop" },
    { id: "alive", area: "loop" },
    { id: "excused", area: "loop", reason: "it is a hint" },
    { id: "unknown", area: "loop" },
    { id: "kept", area: "promises" },
    { id: "kept-badly", area: "promises", reason: "no test is fast enough" },
    { id: "kept-unknown", area: "promises" },
  ];
  const gate = gateOf(mutants, ({ id }: { id: string }) => verdicts[id]);
  const ids = (some: readonly { id: string }[]) => some.map(({ id }) => id);
  expect(ids(gate.inexcusable)).toEqual(["alive"]);
  expect(ids(gate.unproven)).toEqual(["kept-badly", "kept-unknown"]);
  expect(ids(gate.unjudged)).toEqual(["unknown", "kept-unknown"]);
  expect(ids(gate.killed)).toEqual(["dead", "kept"]);
});
