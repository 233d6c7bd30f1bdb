import { expect, test } from "vitest";
import { rewordError } from "../../../src/cli/as-parent.ts";
import { type ErrorCode, messageOf, SubagentError } from "../../../src/shared/errors.ts";

const unknown = (field: string) =>
  new SubagentError("outcome_unknown", `It is unknown: the same call with ${field} "k1" is safe.`, {
    [field]: "k1",
  });
const said = (verb: string, error: unknown) => messageOf(rewordError(verb, error, "planner-7"));

test.each([
  ["send", "message_id", "--message-id"],
  ["spawn", "request_key", "--request-key"],
  ["spawn", "message_id", "--request-key"],
  ["continue", "request_key", "--request-key"],
  ["answer", "question_id", "--question"],
  ["destroy", "agent_id", "agent_id"],
])("of %s that may have happened, %s is said as %s", (verb, field, option) => {
  expect(said(verb, unknown(field))).toBe(`It is unknown: the same call with ${option} "k1" is safe.`);
});

test.each([
  ["send", "message_id", "--message-id"],
  ["spawn", "request_key", "--request-key"],
  ["spawn", "message_id", "--request-key"],
])("of %s that was refused, %s is said as %s", (verb, field, option) => {
  const refused = new SubagentError("conflict", `${field} "k1" was used before.`, { [field]: "k1" });
  expect(said(verb, refused)).toBe(`${option} "k1" was used before.`);
});

test("code and details stay; what says no such thing stays as it is", () => {
  expect(rewordError("send", unknown("message_id"), "p")).toMatchObject({
    code: "outcome_unknown",
    details: { message_id: "k1" },
  });
  for (const code of ["conflict", "redis_unavailable"] satisfies ErrorCode[]) {
    const error = new SubagentError(code, 'with message_id "k1" of This parent');
    expect(rewordError("send", error, "p")).toBe(error);
  }
  const other = new Error("x");
  expect(rewordError("send", other, "p")).toBe(other);
});

test("a parent that does not know the agent is named, and how to be another", () => {
  const error = new SubagentError("unknown_agent", 'This parent has no sub-agent "x": list them.');
  expect(said("send", error)).toBe(
    'Parent "planner-7" has no sub-agent "x": list them; --parent names another parent.',
  );
});
