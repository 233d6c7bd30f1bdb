import { expect, test } from "vitest";
import { NextPurchase } from "../../../../src/worker/run/purchase.ts";
import { ask } from "../model/scripted-provider.ts";

const ID = "sa-1.3.1";
const first = ask();
const keys = () => new NextPurchase("sa-1", "claim", 1).requestKeys;

test("the first request of a purchase bears its id, and so do the same bytes once they brought nothing", () => {
  const known = keys();
  expect(known.keyOf(ID, first)).toBe(ID);
  known.noteFailed(ID, first);
  expect(known.keyOf(ID, { ...first })).toBe(ID);
});

test.each([
  ["another model", { model: "other" }],
  ["other messages", { messages: `${first.messages} ` }],
  ["the final call", { extra: '"tool_choice":{"type":"none"}' }],
  ["another place for the cache", { cachedLength: first.cachedLength + 1 }],
  ["an answer piece by piece", { stream: !first.stream }],
])(
  "%s has a key of its own for the same purchase, the same each time, and the first keeps its own",
  (_, other) => {
    const known = keys();
    known.noteFailed(ID, first);
    const key = known.keyOf(ID, { ...first, ...other });
    expect(key).toMatch(/^sa-1\.3\.1-[0-9a-f]{8}$/);
    known.noteFailed(ID, { ...first, ...other });
    expect(known.keyOf(ID, { ...first, ...other })).toBe(key);
    expect(known.keyOf(ID, first)).toBe(ID);
  },
);

test("the next purchase begins with its id again", () => {
  const known = keys();
  known.noteFailed(ID, first);
  expect(known.keyOf("sa-1.5.1", { ...first, model: "other" })).toBe("sa-1.5.1");
});
