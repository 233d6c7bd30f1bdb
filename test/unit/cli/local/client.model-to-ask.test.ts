import { expect, test } from "vitest";
import { defaultModel } from "../../../../src/cli/local/client.ts";
import { areOffline } from "../../../../src/cli/terminal/banner.ts";
import { loadConfig } from "../../../../src/shared/config.ts";

const worker = (model?: string) => ({
  v: 1 as const,
  id: "w",
  host: "h",
  version: "0.1.0",
  tools: [],
  ...(model !== undefined && { model }),
  concurrency: 1,
});
const unset = loadConfig({});

test("what is configured here is asked for, whatever the workers announce", () => {
  expect(defaultModel(loadConfig({ SUBAGENT_MODEL: "mine" }), [worker("theirs")])).toBe("mine");
  expect(defaultModel(loadConfig({ ANTHROPIC_API_KEY: "k" }), [worker("theirs")])).toBe("claude-sonnet-5-5");
});

test("where nothing is configured the workers' model is asked for, a real one first", () => {
  expect(defaultModel(unset, [worker(), worker("offline-1"), worker("theirs")])).toBe("theirs");
  expect(defaultModel(unset, [worker("offline-1")])).toBe("offline-1");
  expect(defaultModel(unset, [])).toBeUndefined();
});

test("a worker that does not say what its model is does not count as offline", () => {
  expect(areOffline([worker("offline-1")])).toBe(true);
  expect(areOffline([worker("offline-1"), worker()])).toBe(false);
});
