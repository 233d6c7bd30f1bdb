import { expect, test } from "vitest";
import { addressing } from "../../../../src/cli/verbs/start.ts";
import { loadConfig } from "../../../../src/shared/config.ts";

test("a server of ours is named with its password, somebody else's where its address was written", () => {
  const url = "redis://:secret@127.0.0.1:7000";
  expect(addressing(loadConfig({}), { url, isPrivate: true })).toBe(`REDIS_URL=${url}`);
  expect(addressing(loadConfig({}), { url, isPrivate: false })).toBe('REDIS_URL="$REDIS_URL"');
});

test("a prefix that is not the default one belongs to the address", () => {
  const config = loadConfig({ SUBAGENT_PREFIX: "mine" });
  expect(addressing(config, { url: "unix:///x", isPrivate: true })).toBe(
    "REDIS_URL=unix:///x SUBAGENT_PREFIX=mine",
  );
});
