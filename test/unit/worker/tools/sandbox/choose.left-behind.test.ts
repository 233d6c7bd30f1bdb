/** Guarantee: the directory of a sandbox's test belongs to the worker's user, so the next worker can remove it. */
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { chooseRunner } from "../../../../../src/worker/tools/sandbox/choose.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

it.runIf(process.platform === "linux")("also while a command of another user has its workspace", async () => {
  const base = mkdtempSync(join(tmpdir(), "left-"));
  closeAtEnd(() => rmSync(base, { recursive: true, force: true }));
  chmodSync(base, 0o777);
  const seen = join(base, "seen");
  const bwrap = join(base, "bwrap");
  writeFileSync(bwrap, `#!/bin/sh\nstat -c %u ${base}/subagent-bash-* > ${seen}\nexit 1\n`, { mode: 0o755 });
  vi.stubEnv("TMPDIR", base);
  await chooseRunner({ clock: systemClock, mode: "bubblewrap", production: false, bwrap });
  expect(readFileSync(seen, "utf8")).toBe(`${process.getuid?.()}\n`);
  expect(readdirSync(base).sort()).toEqual(["bwrap", "seen"]);
});
