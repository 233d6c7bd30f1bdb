/** What a search of many files says, and does when it is stopped. */
import { createHook } from "node:async_hooks";
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { grepTool } from "../../../../../src/worker/tools/builtin/grep.ts";
import { createSearchMeans } from "../../../../../src/worker/tools/search/search.ts";
import { openScene } from "../scene.ts";

it("ten notes are said about large files, however many there are", async () => {
  const { put, call } = await openScene();
  const bytes = Buffer.alloc(16 * 1024 * 1024, "x");
  for (let n = 0; n < 11; n += 1) await put(`large/${n}`, bytes);
  const { content } = await call("grep", { pattern: "y", path: "large" });
  const [first, ...notes] = String(content).split("\n");
  expect(first).toBe("no matches");
  expect(notes).toHaveLength(10);
  expect(notes[0]).toMatch(/^\[only the first 16 MB of large\/\d+ were searched\]$/);
});

it("a search that is stopped opens none of the files that are left", async () => {
  const { put, context } = await openScene();
  const files = 200;
  for (let n = 0; n < files; n += 1) await put(`many/${n}`, "x\n");
  const stop = new AbortController();
  let requests = 0;
  const hook = createHook({
    init: (_id, type) => {
      if (type === "FSREQPROMISE") requests += 1;
    },
  });
  const matcher = {
    async lines(_expression: object, texts: readonly string[]) {
      if (texts.length > 0 && !stop.signal.aborted) {
        stop.abort();
        hook.enable();
      }
      return [];
    },
    ...{ paths: async () => [], ignored: async () => [], close: async () => {} },
    mismatch: async () => undefined,
  };
  const tool = grepTool({ ...createSearchMeans(systemClock), processes: { open: () => matcher } });
  const searching = tool.run({ pattern: "x", path: "many" }, context(stop.signal));
  await expect(searching).rejects.toThrow("Cancelled while searching.");
  hook.disable();
  expect(requests).toBeLessThan(files / 2);
});
