/** Guarantee: a call begins as the last one of its verb only if every key that it names is the same. */
import { expect, test } from "vitest";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import { TIMING } from "../../../../src/shared/protocol/limits.ts";
import { beginsWith, formOf, type KeyParameters, openingOf } from "../../../../src/shared/redis/verb.ts";

const settings = { keys: keysUnder("saq"), timing: TIMING };
const address = { tenant: "default", parentId: "p", uid: "u1" };

function begun(keys: Parameters<typeof formOf>[0]["keys"], given: Partial<KeyParameters>) {
  const form = formOf({ keys, context: [], args: {}, answers: {} });
  const opening = openingOf(form, settings, address, given);
  return (next: Partial<KeyParameters>) => beginsWith(opening, form, next);
}

test("a verb with one key that its caller names begins alike for the same name only", () => {
  const beginsLike = begun(["record", "request"], { request_key: "a" });
  expect(beginsLike({ request_key: "a" })).toBe(true);
  expect(beginsLike({ request_key: "b" })).toBe(false);
});

test("a verb with two such keys is prepared anew each time", () => {
  const beginsLike = begun(["request", "resumed"], { request_key: "a", resumes: "u2" });
  expect(beginsLike({ request_key: "a", resumes: "u3" })).toBe(false);
});
