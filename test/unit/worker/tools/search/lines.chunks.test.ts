/** Guarantee: a line that two reads share is matched and shown as it stands in the file, under its number. */
import { expect, it } from "vitest";
import { openScene } from "../scene.ts";

it("a line across the end of a chunk of 256 KB is whole", async () => {
  const { call, put } = await openScene();
  const filler = `${"x".repeat(63)}\n`;
  const before = filler.repeat((256 * 1024) / filler.length - 1);
  // The line begins 64 bytes before the end of the first chunk; the second chunk is full as well.
  await put("long.txt", `${before}BEGIN${"y".repeat(100)}END\n${filler.repeat(8_000)}`);
  expect((await call("grep", { pattern: "BEGINy+END" })).content).toBe(
    `long.txt:4096:BEGIN${"y".repeat(100)}END`,
  );
});
