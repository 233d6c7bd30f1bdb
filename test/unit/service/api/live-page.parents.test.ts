/** What the live page says in place of parents. */
import { expect, test } from "vitest";
import { noParents } from "../../../../web/view.js";

test("a page of older parents that has become empty says so, and not that no parent has spawned", () => {
  expect(noParents(true)).toBe("No parent has spawned a sub-agent yet.");
  expect(noParents(false)).toBe("No older parent is left here: Newest shows the others.");
});
