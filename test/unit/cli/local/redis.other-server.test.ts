/** Guarantee: an address of another kind of server is the user's to correct, and nothing to report. */
import { expect, test } from "vitest";
import { redisError } from "../../../../src/cli/local/redis.ts";

test("a web server behind REDIS_URL", () => {
  const heard = new Error('Protocol error, got "H" as reply type byte. Please report this.');
  expect(redisError("redis://127.0.0.1:80", heard).message).toBe(
    'Redis at redis://127.0.0.1:80 cannot be used (Protocol error, got "H" as reply type byte): correct REDIS_URL, or fix that server.',
  );
});
