import { expect, test } from "vitest";
import { createApi } from "../../../../src/service/api/api.ts";
import { createIntake } from "../../../../src/service/intake/intake.ts";

test.for([
  ["nothing", undefined],
  ["no client", {}],
  ["a client of another copy", { client: {}, redisUrl: "redis://127.0.0.1:6379" }],
] as const)("a door that is given %s is refused when it is made", ([, options]) => {
  // biome-ignore lint/suspicious/noExplicitAny: what a caller without types would pass
  const given = options as any;
  const refusal = expect.objectContaining({ code: "invalid_config" });
  expect(() => createApi(given)).toThrow(refusal);
  expect(() => createIntake(given)).toThrow(refusal);
});
