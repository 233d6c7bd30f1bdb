import { expect, test } from "vitest";
import { createClient } from "../../../src/producer/client.ts";
import { createParent } from "../../../src/producer/parent.ts";

const good = { redisUrl: "redis://127.0.0.1:6379" };

test.for([
  ["nothing at all", undefined, "is missing"],
  ["no address", {}, "redisUrl: is missing"],
  ["a console as a logger", { ...good, logger: console }, "logger: must be a logger"],
  ["a clock without time", { ...good, clock: {} }, "clock: must be a clock"],
  ["half a timing", { ...good, timing: { leaseMs: 1 } }, "timing: must be an object with every field"],
  ["a misspelled option", { ...good, stict: true }, 'input: does not know "stict"'],
  ["an option of a parent", { ...good, budget: { usd: 1 } }, 'input: does not know "budget"'],
  ["another word for strict", { ...good, strict: "yes" }, "strict: must be true or false"],
] as const)("a client with %s is refused before anything is opened", ([, options, problem]) => {
  // biome-ignore lint/suspicious/noExplicitAny: what a caller without types would pass
  const make = () => createClient(options as any);
  expect(make).toThrow(problem);
  expect(make).toThrow(expect.objectContaining({ code: "invalid_input" }));
});

test("a parent without options is refused in the words of its first missing one", () => {
  // biome-ignore lint/suspicious/noExplicitAny: what a caller without types would pass
  const make = () => createParent(undefined as any);
  expect(make).toThrow("parentId: is missing");
});
