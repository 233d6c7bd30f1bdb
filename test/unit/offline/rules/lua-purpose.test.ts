import { expect, it } from "vitest";
import { headerOf } from "../../../../src/offline/rules/lua-purpose.ts";

it.each([
  ["one line", "-- Spawns an agent.\nreturn 1", "Spawns an agent."],
  [
    "the first sentence of several lines",
    "--- Settles an agent,\n--- the first one wins. Then more.\nreturn",
    "Settles an agent, the first one wins.",
  ],
  ["a comment block", "--[[\n  Renews a lease.\n  KEYS[1] lease\n]]\nreturn", "Renews a lease."],
  ["a comment block with a level", "--[==[ Sends. ]==]\nreturn", "Sends."],
  ["what stands before the keys", "-- Claims a run\n-- KEYS[1] record\nreturn", "Claims a run"],
  [
    "what stands behind rulers and a shebang",
    "#!lua name=x\n----------\n-- Releases it.\n----------\nreturn",
    "Releases it.",
  ],
])("takes %s", (_, script, purpose) => {
  expect(headerOf(script)).toBe(purpose);
});

it("finds nothing in a script that starts with code", () => {
  expect(headerOf("local x = 1 -- not a header\n")).toBeUndefined();
  expect(headerOf("")).toBeUndefined();
});
