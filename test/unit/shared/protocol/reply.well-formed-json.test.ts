import { expect, test } from "vitest";
import { wellFormedJson } from "../../../../src/shared/protocol/reply.ts";

test("a body loses its lone surrogates and nothing else", () => {
  const body = { "k\ud83d": ["a\ud83d", "\ude00b", "\ud83d\ude00", "\\ud83d", "\\\\\ud83d", '\n"\u0001'] };
  const clean = wellFormedJson(JSON.stringify(body));
  expect(JSON.parse(clean)).toEqual({
    "k\uFFFD": ["a\uFFFD", "\uFFFDb", "\ud83d\ude00", "\\ud83d", "\\\\\uFFFD", '\n"\u0001'],
  });
  expect(wellFormedJson(clean)).toBe(clean);
});
