import { expect, test } from "vitest";
import { allowedHosts, requestRefusal } from "../../../../src/service/board/app.ts";

test("a page's own request passes, however its user has spelled the host", () => {
  const headers = { host: "LocalHost:3000", origin: "http://localhost:3000" };
  expect(requestRefusal(headers, allowedHosts("127.0.0.1"), "/")).toBeUndefined();
});

test("another site's request is refused also where any name is answered", () => {
  const headers = { host: "board.internal", origin: "https://evil.example" };
  expect(requestRefusal(headers, allowedHosts("0.0.0.0"), "/")).toMatch(/other sites/);
});
