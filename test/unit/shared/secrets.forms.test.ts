import { beforeEach, expect, test, vi } from "vitest";

/** The registry without the secrets of other tests. */
let secrets: typeof import("../../../src/shared/secrets.ts");

beforeEach(async () => {
  vi.resetModules();
  secrets = await import("../../../src/shared/secrets.ts");
});

test("a secret whose base64 has signs that no URL takes is masked in base64 for URLs", () => {
  const value = "~~~???>>>~~~???>>>";
  secrets.keepSecret(value);
  const encoded = Buffer.from(value).toString("base64url");
  expect(encoded).toMatch(/[-_]/);
  expect(secrets.withoutSecrets(`key=${encoded}`)).toBe("key=[redacted]");
});

test("of more secrets than are kept the newest are", () => {
  const values = Array.from({ length: 257 }, (_, n) => `q7Z2-kW9p-${n}-L4vT`);
  for (const value of values) secrets.keepSecret(value);
  const [oldest = "", second = ""] = values;
  const newest = values.at(-1) ?? "";
  expect([oldest, second, newest].map((value) => secrets.withoutSecrets(value))).toEqual([
    oldest,
    "[redacted]",
    "[redacted]",
  ]);
});

test("the password of an address that is an argument by itself is masked", () => {
  secrets.keepSecretsOfArguments(["postgres://app:q7Z2kW9pL4vT@db/orders"]);
  expect(secrets.withoutSecrets("refused q7Z2kW9pL4vT")).toBe("refused [redacted]");
});

test("a secret that a piece ends with is masked at the end, also where another one may begin in it", () => {
  secrets.keepSecret("q7Z2kW9pL4vT-sk");
  secrets.keepSecret("sk-m3Nx8RcY1");
  const filter = secrets.secretFilter();
  expect(filter.push("key q7Z2kW9pL4vT-sk") + filter.end()).toBe("key [redacted]");
});

test("a secret that no URL can hold is kept, and masked as it is", () => {
  const value = "q7Z2\ud800kW9pL4vT";
  secrets.keepSecret(value);
  expect(secrets.withoutSecrets(`key ${value}`)).toBe("key [redacted]");
});
