/** Guarantee: the stamp of a workspace is a file of its own that only its owner reads; a check of the disk leaves no timer. */
import { mkdtempSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { STAMP_NAME } from "../../../../src/shared/protocol/ids.ts";
import { readStamp, requireWritable } from "../../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { openScene } from "./scene.ts";

it("only its owner reads it, and a link to another one's counts for nothing", async () => {
  const { home, base } = await openScene();
  const stamp = join(dirname(home), STAMP_NAME);
  expect(statSync(stamp).mode & 0o777).toBe(0o600);
  expect(await readStamp(stamp)).toBe("uid-a1");
  symlinkSync(stamp, join(base, "link"));
  expect(await readStamp(join(base, "link"))).toBe("");
});

it("a disk that answers leaves no timer", async () => {
  const root = mkdtempSync(join(tmpdir(), "workspaces-"));
  closeAtEnd(() => rmSync(root, { recursive: true, force: true }));
  const clock = handClock();
  await requireWritable(join(root, "new"), clock);
  expect(clock.pending).toBe(0);
});

it("a disk that does not answer is given up after five seconds", async () => {
  const root = mkdtempSync(join(tmpdir(), "workspaces-"));
  closeAtEnd(() => rmSync(root, { recursive: true, force: true }));
  const clock = handClock();
  const checked = requireWritable(root, clock);
  // The disk cannot answer meanwhile: that takes a turn of the event loop.
  for (let passedMs = 0; passedMs <= 5_000; passedMs += 100) {
    clock.advance(100);
    for (let turn = 0; turn < 10; turn++) await undefined;
  }
  await expect(checked).rejects.toThrow(/cannot be written to .* \(no answer\)/);
});
