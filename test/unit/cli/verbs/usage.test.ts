import { expect, test } from "vitest";
import { sinceOf } from "../../../../src/cli/verbs/usage.ts";
import { refusal } from "../../../helpers/parents.ts";

const now = Date.parse("2026-11-21T12:00:00Z");

test.each([
  ["2026-11-01", "2026-11-01T00:00:00.000Z"],
  ["2026-11-01T12:30:00+02:00", "2026-11-01T10:30:00.000Z"],
  ["2026-03-01T00:30:00+02:00", "2026-02-28T22:30:00.000Z"],
  ["7d", "2026-11-14T12:00:00.000Z"],
  ["0d", "2026-11-21T12:00:00.000Z"],
])("--since %s is %s", (text, time) => {
  expect(sinceOf(text, now).toISOString()).toBe(time);
});

test.each([
  "",
  "yesterday",
  "1",
  "2026",
  "2026-13-01",
  "2026-02-30",
  "2026-02-30T12:00:00Z",
  "2026-02-30T12:00:00+02:00",
  "-1d",
  "99999d",
  "9999d1",
  "1800-01-01",
])("--since %j is refused", (text) => {
  expect(() => sinceOf(text, now)).toThrow(expect.objectContaining(refusal("invalid_input", /^--since /)));
});
