import { expect, test } from "vitest";
import { WebhookInput } from "../../../src/producer/webhook.ts";

test.for([
  ["of another protocol", "httpx://example.com/hook"],
  ["that is too long to be stored and shown", `https://example.com/${"x".repeat(2_048)}`],
])("a URL %s is refused", ([, url]) => {
  expect(WebhookInput.safeParse({ url }).success).toBe(false);
});

test.for(["http://example.com", "https://example.com/hook?a=b"])("%s is taken", (url) => {
  expect(WebhookInput.safeParse({ url }).success).toBe(true);
});
