import { expect, test } from "vitest";
import { troublesOf } from "../../../../src/cli/doctor/facts.ts";
import { snapshot } from "./samples.ts";

const NOTHING = { record: null, log: 0, inbox: 0, attachments: 0, timeline: 0, isCounted: false } as const;
const gone = (more: Parameters<typeof snapshot>[0]) =>
  troublesOf(snapshot({ ...NOTHING, lifeMs: -2, nextCheckMs: undefined, ...more }), 15_000);

test.each([
  ["nothing", {}, []],
  ["a log", { log: 1 }, ["orphaned_keys"]],
  ["an inbox", { inbox: 1 }, ["orphaned_keys"]],
  ["files of messages", { attachments: 1 }, ["orphaned_keys"]],
  ["a timeline", { timeline: 1 }, ["orphaned_keys"]],
  ["a life key that never expires", { lifeMs: -1 }, ["orphaned_keys"]],
  ["a life key", { lifeMs: 5_000 }, ["orphaned_keys"]],
])("of an agent that left %s behind, exactly that is found", (_what, more, troubles) => {
  expect(gone(more)).toEqual(troubles);
});
