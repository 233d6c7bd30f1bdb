/** Guarantee: an embedded server for which the machine gives no process is a sentence that says so. */
import { afterEach, expect, test } from "vitest";
import { startEmbeddedRedis } from "../../../../src/cli/local/embedded-redis.ts";
import { systemClock } from "../../../../src/shared/clock.ts";

const { execPath } = process;
afterEach(() => {
  process.execPath = execPath;
});

test("an error that comes after the call", async () => {
  process.execPath = "/no/such/node";
  await expect(startEmbeddedRedis({ clock: systemClock, nodeArguments: [] })).rejects.toMatchObject({
    code: "setup_failed",
    message: "The embedded Redis could not be started: spawn /no/such/node ENOENT",
  });
});

test("an error that the call throws", async () => {
  const nodeArguments = [`--title=${"x".repeat(200_000)}`];
  await expect(startEmbeddedRedis({ clock: systemClock, nodeArguments })).rejects.toMatchObject({
    code: "setup_failed",
    message: "The embedded Redis could not be started: spawn E2BIG",
  });
});
