import { describe, expect, test } from "vitest";
import { keepSecret } from "../../../../../src/shared/secrets.ts";
import { MAX_MESSAGE_CHARS, redact } from "../../../../../src/worker/model/anthropic/failure.ts";

describe("redact", () => {
  test.each([
    ["invalid key sk-ant-api03-CANARY_abc-123", "sk-ant"],
    ["header Authorization: Bearer CANARYabc.def", "CANARY"],
    ["{'authorization':'CANARY'}", "CANARY"],
    ["x-api-key=CANARY; next", "CANARY"],
    ["api key: CANARY", "CANARY"],
    ['"auth_token": "CANARY"', "CANARY"],
    ["Basic Q0FOQVJZ", "Q0FOQVJZ"],
    ["connect https://user:CANARY@host/path", "CANARY"],
    ["token eyJhbGciOiJIUzI1NiJ9.CANARY.sig", "CANARY"],
    [`opaque ${"CANARY0".repeat(7)}`, "CANARY"],
  ])("removes what looks like a credential: %s", (text, canary) => {
    const clean = redact(text);
    expect(clean).not.toContain(canary);
    expect(clean).toContain("[redacted]");
  });

  test.each([
    "invalid x-api-key",
    "messages.3: `tool_use` ids were found without `tool_result` blocks: toolu_01A09q90qw90lq917835lq9",
    "model: claude-opus-5-5 [req_011CSHoEeqs5C35K2UUqR7Fy]",
    "the basics of authorization",
    "connect ECONNREFUSED 127.0.0.1:443",
  ])("leaves a plain sentence alone: %s", (text) => {
    expect(redact(text)).toBe(text);
  });

  test("removes the secrets of the process, of any shape", () => {
    keepSecret("a\nb+c/d. e");
    expect(redact("got a\nb+c/d. e back")).toBe("got [redacted] back");
  });

  test("makes one line of many and cuts it without splitting a character", () => {
    expect(redact("a\r\n\tb\u0000\u001b[31mc  d")).toBe("a b [31mc d");
    const long = redact(`${"x ".repeat(249)}y😀😀😀`);
    expect(long.length).toBeLessThanOrEqual(MAX_MESSAGE_CHARS);
    expect(long).not.toMatch(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])/);
  });

  test("takes no time over a huge hostile text", () => {
    const before = process.cpuUsage();
    redact("authorization".repeat(100_000) + " ".repeat(1_000_000));
    expect(process.cpuUsage(before).user).toBeLessThan(1_500_000);
  });
});
