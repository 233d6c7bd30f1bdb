import { expect, test } from "vitest";
import { z } from "zod";
import { ERRORS, type ErrorCode, messageOf, SubagentError, withoutKey } from "../../../src/shared/errors.ts";

const CODES = Object.keys(ERRORS) as ErrorCode[];

test.for(CODES)("%s has a status that fits and says whether trying again helps", (code) => {
  const error = new SubagentError(code, "Do this.");
  expect(error.retryable).toBe(ERRORS[code].retryable);
  expect(error.httpStatus).toBe(ERRORS[code].httpStatus);
  expect(error.httpStatus).toBeGreaterThanOrEqual(400);
  expect(error.httpStatus).toBeLessThan(600);
});

test("what may succeed later is 429 or 503, and no other refusal of the caller's is", () => {
  for (const code of CODES.filter((each) => ERRORS[each].retryable))
    expect([429, 503], code).toContain(ERRORS[code].httpStatus);
  for (const code of CODES.filter((each) => ERRORS[each].httpStatus === 429))
    expect(ERRORS[code].retryable).toBe(true);
});

test("what is not there is 404, and what stands against it is 409", () => {
  const badInput: readonly ErrorCode[] = ["unknown_price"];
  for (const code of CODES.filter((each) => each.startsWith("unknown_") && !badInput.includes(each)))
    expect(ERRORS[code].httpStatus, code).toBe(404);
  for (const code of ["already_answered", "agent_ended", "conflict", "log_full"] as const)
    expect(ERRORS[code].httpStatus, code).toBe(409);
});

test("an error carries its sentence, its facts and its cause, and is an Error by name", () => {
  const cause = new Error("ECONNRESET");
  const error = new SubagentError("outcome_unknown", "Call again.", { request_key: "k-1" }, cause);
  expect(error).toBeInstanceOf(Error);
  expect(error).toMatchObject({
    name: "SubagentError",
    code: "outcome_unknown",
    message: "Call again.",
    cause,
  });
  expect(error.details).toEqual({ request_key: "k-1" });
  expect(`${error}`).toBe("SubagentError: Call again.");
});

test("an error without facts or cause claims none", () => {
  const error = new SubagentError("closed", "Make a new one.");
  expect(error.details).toEqual({});
  expect("cause" in error).toBe(false);
});

test("anything thrown has a message", () => {
  expect(messageOf(new TypeError("no"))).toBe("no");
  expect(messageOf("plain")).toBe("plain");
  const misread = z.object({ turn: z.object({ cost: z.number() }) }).safeParse({ turn: { cost: "1" } }).error;
  expect(messageOf(misread)).toBe("turn.cost: Invalid input: expected number, received string");
  expect(messageOf(new z.ZodRealError([]))).toBe("[]");
  const named = z
    .record(z.string(), z.number())
    .safeParse({ [`a\n\u001b[2J${"b".repeat(1_000)}`]: "1" }).error;
  expect(messageOf(named)).toMatch(/^a {2}\[2Jb{190,}$/);
  expect(messageOf(undefined)).toBe("undefined");
  expect(messageOf(null)).toBe("null");
});

test.for([
  ["an object without a prototype", Object.create(null)],
  ["one whose spelling throws", { toString: () => Reflect.apply(Symbol.prototype.toString, {}, []) }],
] as const)("a cause that has no spelling is said to have none: %s", ([, cause]) => {
  const sentence = "something that cannot be shown was thrown";
  expect(messageOf(cause)).toBe(sentence);
  expect(new SubagentError("closed", "Closed.", {}, cause).cause).toBe(sentence);
});

const unknown = (key: string) =>
  new SubagentError(
    "outcome_unknown",
    `Redis did not answer, so it is unknown whether the spawn happened: the same call with ${key} "k1" is safe.`,
    { [key]: "k1" },
  );

test("a caller that cannot name the key is not told to", () => {
  for (const key of ["request_key", "message_id", "question_id"])
    expect(withoutKey(unknown(key), "look first")).toMatchObject({
      code: "outcome_unknown",
      message: "Redis did not answer, so it is unknown whether the spawn happened: look first.",
      details: {},
    });
});

test("an error that names what the caller has, and any other, stays as it is", () => {
  const others = [unknown("agent_id"), new SubagentError("conflict", "Used."), new Error("No.")];
  for (const error of others) expect(withoutKey(error, "look first")).toBe(error);
});
