/** Guarantee: of a long output this process holds the two ends and a bounded rest, however long it is. */
import { expect, it, vi } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createUnconfined } from "../../../../../src/worker/tools/sandbox/unconfined.ts";
import { openScene } from "../scene.ts";

it("no more than some 200 KB of an output of 4 MB are ever put together", async () => {
  const { workspace } = await openScene();
  const { signal } = new AbortController();
  const concat = vi.spyOn(Buffer, "concat");
  try {
    const script = "head -c 4000000 /dev/zero | tr '\\0' x";
    const { output } = await createUnconfined(systemClock).run({
      script,
      workspace,
      timeoutMs: 60_000,
      signal,
    });
    expect(output.length).toBeLessThan(50_000);
    const lengths = concat.mock.results.map(({ value }) => Buffer.byteLength(value as Buffer));
    expect(Math.max(...lengths)).toBeLessThan(200 * 1024);
  } finally {
    concat.mockRestore();
  }
});
