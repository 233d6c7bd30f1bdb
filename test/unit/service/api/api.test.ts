import { expect, test } from "vitest";
import { createClient } from "../../../../src/producer/client.ts";
import { createApi } from "../../../../src/service/api/api.ts";
import { createIntake } from "../../../../src/service/intake/intake.ts";
import { SubagentError } from "../../../../src/shared/errors.ts";

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

test("an API names each option that it does not know or cannot use", () => {
  const client = createClient({ redisUrl: "redis://127.0.0.1:1" });
  const wrong = {
    ...{ client, prot: 1, host: "", port: "8", hostNames: "a.example", tenant: "a b", requestsPerMinute: 0 },
    ...{ requestsAtOnce: 1.5, webhookReach: "all", mounts: [{}], clock: {}, logger: { info() {} } },
  };
  expect(problemsOf(() => Reflect.apply(createApi, undefined, [wrong]))).toEqual([
    "prot is no option of an API",
    "host must be a host name or an address",
    "port must be a whole number from 0 to 65535",
    "hostNames must be a list of host names",
    "tenant must be 1 to 64 characters of A-Za-z0-9._-",
    "requestsPerMinute must be a whole number above 0",
    "requestsAtOnce must be a whole number above 0",
    "webhookReach must be public or any",
    "mounts must be a list of mounts, as mcpMount() makes one",
    expect.stringMatching(/^clock must be a clock: /),
    expect.stringMatching(/^logger must be a logger: /),
  ]);
  for (const port of [-1, 65_536, Number.NaN, 8.5])
    expect(problemsOf(() => createApi({ client, port }))).toEqual([
      "port must be a whole number from 0 to 65535",
    ]);
  for (const port of [0, 65_535, undefined])
    expect(createApi({ client, ...(port !== undefined && { port }) })).toBeDefined();
});

test("an intake names each option that it does not know or cannot use, and an address that is none", () => {
  const client = createClient({ redisUrl: "redis://127.0.0.1:1" });
  const wrong = { client, url: "redis://127.0.0.1:1", prefix: "a b", clock: {}, logger: {} };
  expect(problemsOf(() => Reflect.apply(createIntake, undefined, [wrong]))).toEqual([
    "url is no option of an intake",
    "redisUrl must be the address of a Redis, e.g. redis://127.0.0.1:6379",
    "prefix must be 1 to 32 characters of A-Za-z0-9._-, starting with a letter or digit",
    expect.stringMatching(/^logger must be a logger: /),
    expect.stringMatching(/^clock must be a clock: /),
  ]);
  const refusal = expect.objectContaining({ code: "invalid_config" });
  expect(() => createIntake({ client, redisUrl: "http://127.0.0.1" })).toThrow(refusal);
});

/** What an `invalid_config` names; undefined where nothing was refused. */
function problemsOf(work: () => unknown): unknown {
  try {
    work();
    return undefined;
  } catch (error) {
    expect(error).toMatchObject({
      code: "invalid_config",
      message: expect.stringMatching(/cannot be made: /),
    });
    return error instanceof SubagentError ? error.details.problems : error;
  }
}
