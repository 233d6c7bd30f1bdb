import { expect, test } from "vitest";
import { nextAllowedCall } from "../../../../src/worker/loop/caps.ts";
import { asked, rules, type Story } from "./story.ts";

test("a spent budget leaves a last call to a run that has an answer to report", () => {
  const allowed = (story: Story) => nextAllowedCall(story.log({ overBudget: { cap: "max_cost" } }), rules());
  expect(allowed(asked().calls("1"))).toEqual({ call: "final", cause: "max_cost" });
  expect(allowed(asked())).toEqual({ call: "none", cause: "max_cost" });
  expect(allowed(asked().broken(10, 0))).toEqual({ call: "none", cause: "max_cost" });
});
