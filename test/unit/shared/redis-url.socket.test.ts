/** Guarantee: an address of a socket means the path that stands in it. */
import { expect, test } from "vitest";
import { isRedisUrl, parseRedisUrl } from "../../../src/shared/redis-url.ts";

test("with two slashes in place of three the first name is no part of the path, so it is refused", () => {
  expect(isRedisUrl("unix://run/redis.sock")).toBe(false);
  expect(() => parseRedisUrl("unix://run/redis.sock")).toThrow(/write .*unix:\/\/\/path\/to\/redis\.sock/);
});
