/** Guarantee: a directory in which no workspace can be created is refused at once, with the reason of the file system. */
import { mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../../../src/shared/clock.ts";
import { requireWritable } from "../../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

it.runIf(process.platform === "linux")("below a directory that takes none, with the reason", async () => {
  await expect(requireWritable("/proc/no-such/workspaces", systemClock)).rejects.toMatchObject({
    code: "setup_failed",
    message: expect.stringMatching(
      /cannot be written to \/proc\/no-such\/workspaces \(ENOENT: .*SUBAGENT_WORKSPACES/,
    ),
  });
});

it("below a file, with the reason; a link to a directory is one", async () => {
  const base = mkdtempSync(join(tmpdir(), "workspaces-"));
  closeAtEnd(() => rmSync(base, { recursive: true, force: true }));
  writeFileSync(join(base, "file"), "");
  await expect(requireWritable(join(base, "file"), systemClock)).rejects.toThrow(/EEXIST/);
  await expect(requireWritable(join(base, "file", "below"), systemClock)).rejects.toThrow(/ENOTDIR/);
  symlinkSync(base, join(base, "link"));
  await requireWritable(join(base, "link"), systemClock);
  await requireWritable(join(base, "link", "a", "b"), systemClock);
  expect(statSync(join(base, "a", "b")).mode & 0o777).toBe(0o700);
});
