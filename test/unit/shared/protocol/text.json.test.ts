/** Guarantee: a provider's JSON is read in bounded memory, and what is not absurdly deep as `JSON.parse` reads it. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { depthOf, parseShallow, shallowJsonIn } from "../../../../src/shared/protocol/text.ts";

/** Makes the text long enough to be looked through. */
const PADDING = " ".repeat(64 * 1024);

test("a long text is read as JSON.parse reads it", () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), (json) => {
      expect(parseShallow(PADDING + json)).toEqual(JSON.parse(json));
    }),
    { examples: [['{"a":"]]}\\"","b":[["\\\\"]]}'], ['"["']] },
  );
});

test("levels beyond the kept ones are left out, and the value beside them stays", () => {
  const deep = "[".repeat(300_000) + "]".repeat(300_000);
  const value = parseShallow(`{"deep":${deep},"beside":[1,{"a":2}]}`);
  expect(value).toMatchObject({ beside: [1, { a: 2 }] });
  expect(depthOf(value, 1_000)).toBe(120);
});

test.each(["[".repeat(300_000), `${PADDING}"unclosed`, `${"[".repeat(300_000)}"${"]".repeat(300_000)}`])(
  "what is no JSON is none, however deep it begins",
  (json) => {
    expect(() => parseShallow(json)).toThrow(SyntaxError);
    expect(shallowJsonIn(json)).toBeUndefined();
  },
);
