/** Guarantee: a worker is given an agent only if it has the tools, skills and hooks that the agent names. */
import { expect, test } from "vitest";
import { needsOf } from "../../../../src/shared/protocol/worker.ts";

test("an agent needs its custom tools, its skills and its hooks, each under a name of its kind; base tools are everywhere", () => {
  const named = { tools: ["read_file", "deploy"], skills: ["deploy"], hooks: ["deploy", "audit"] };
  expect(needsOf(named)).toEqual(["deploy", "skill:deploy", "hook:deploy", "hook:audit"]);
  expect(needsOf({ tools: ["grep"] })).toEqual([]);
  expect(needsOf({})).toEqual([]);
});
