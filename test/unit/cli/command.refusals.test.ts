import { expect, test } from "vitest";
import { describeError } from "../../../src/cli/command.ts";
import { SubagentError } from "../../../src/shared/errors.ts";

test("a refusal that lists problems other than environment variables is its sentence", () => {
  const sentence = "The worker cannot be made: a must be b; c must be d.";
  const problems = ["a must be b", "c must be d"];
  const refusal = new SubagentError("invalid_config", sentence, { problems });
  expect(describeError(refusal, false)).toEqual([sentence]);
});
