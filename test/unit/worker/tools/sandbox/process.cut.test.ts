/** Guarantee: what is left out of a long output is counted to the byte, and takes no half of a character. */
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createUnconfined } from "../../../../../src/worker/tools/sandbox/unconfined.ts";
import { openScene } from "../scene.ts";

it("a character that is cut at either end of what is left out is left out whole", async () => {
  const { workspace } = await openScene();
  const { signal } = new AbortController();
  const script = `perl -e 'print "a", "\\xc3\\xa9" x 60_000, "b"'`;
  const { output } = await createUnconfined(systemClock).run({
    script,
    workspace,
    timeoutMs: 60_000,
    signal,
  });
  expect(output).toBe(`a${"é".repeat(10_239)}\n[72900 bytes left out here]\n${"é".repeat(13_311)}b`);
});
