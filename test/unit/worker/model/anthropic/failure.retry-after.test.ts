import { expect, test } from "vitest";
import { retryAfterMs } from "../../../../../src/worker/model/anthropic/failure.ts";

const nowMs = Date.UTC(2031, 0, 1, 12);
const date = (ms: number) => new Date(ms).toUTCString();

test.each<[string, Record<string, string>, number | undefined]>([
  ["nothing", {}, undefined],
  ["seconds", { "retry-after": "1" }, 1_000],
  ["ten minutes", { "retry-after": "600" }, 600_000],
  ["fractions of a second", { "retry-after": " 0.25 " }, 250],
  ["milliseconds, which win", { "retry-after-ms": "1500", "retry-after": "9" }, 1_500],
  ["seconds beside garbage milliseconds", { "retry-after-ms": "x", "retry-after": "9" }, 9_000],
  ["a date, against the local clock", { "retry-after": date(nowMs + 90_000) }, 90_000],
  [
    "a date, against the clock of the server",
    { "retry-after": date(nowMs + 90_000), date: date(nowMs + 60_000) },
    30_000,
  ],
  ["a date that has passed", { "retry-after": date(nowMs - 5_000) }, 0],
  ["zero", { "retry-after": "0" }, 0],
  ["a word", { "retry-after": "soon" }, undefined],
  ["a negative number", { "retry-after": "-5" }, undefined],
  ["an exponent", { "retry-after": "1e9" }, undefined],
  ["infinity", { "retry-after": "Infinity" }, undefined],
  ["a number too large for a number", { "retry-after": "9".repeat(400) }, undefined],
  ["half a date", { "retry-after": "Wed, 99 Foo" }, undefined],
  ["two values", { "retry-after": "1, 2" }, undefined],
  ["emptiness", { "retry-after": "" }, undefined],
])("retry-after: %s", (_, headers, expected) => {
  expect(retryAfterMs(new Headers(headers), nowMs)).toBe(expected);
});
