import { expect, test } from "vitest";
import { networkProblem } from "../../../src/shared/network-problem.ts";

const coded = (code: unknown, options?: ErrorOptions) => Object.assign(new Error("raw", options), { code });

test("a connection's problem is told by the code of the error, or of its cause, as with fetch", () => {
  expect(networkProblem(coded("ECONNREFUSED"))).toBe("connection refused");
  expect(networkProblem(new TypeError("fetch failed", { cause: coded("UND_ERR_SOCKET") }))).toBe(
    "connection closed",
  );
  expect(networkProblem(coded("EAI_AGAIN", { cause: coded("ECONNREFUSED") }))).toBe("unknown host");
});

test("any other problem has no words here", () => {
  const itself = new Error("raw");
  itself.cause = itself;
  for (const other of [itself, coded("EOTHER"), coded(5), "ECONNREFUSED", undefined, null])
    expect(networkProblem(other)).toBeUndefined();
});
