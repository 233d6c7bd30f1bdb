/** The fields of a body are counted before it is parsed: each costs the parser ten times as much as another value. */
import { expect, test } from "vitest";
import { requireSmall } from "../../../../src/service/api/body.ts";

const check = (text: string) => () => requireSmall(Buffer.from(text));
const fields = (count: number) => Array.from({ length: count }, (_, at) => `"f${at}":0`).join();

test("a body has at most 20,000 fields, in one object or in many, and a colon in a text is none", () => {
  expect(check(`{${fields(20_000)}}`)).not.toThrow();
  expect(check(`{${fields(20_001)}}`)).toThrow(/more than 20000 fields/);
  expect(check(`[${Array(10_001).fill('{"a":1,"b":":"}').join()}]`)).toThrow(/more than 20000 fields/);
  expect(check(`["${":".repeat(60_000)}"]`)).not.toThrow();
});
