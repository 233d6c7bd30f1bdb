/** Guarantee: a private server that gets no directory says which variable names one. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { startPrivateRedis } from "../../../../src/cli/local/private-redis.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

test.each(["no/such", "file"])("TMPDIR that is %s", async (name) => {
  const base = mkdtempSync(join(tmpdir(), "path-"));
  closeAtEnd(() => rmSync(base, { recursive: true }));
  writeFileSync(join(base, "file"), "");
  writeFileSync(join(base, "redis-server"), "#!/bin/sh\n", { mode: 0o755 });
  vi.stubEnv("TMPDIR", join(base, name));
  await expect(startPrivateRedis({ searchPath: base, clock: systemClock })).rejects.toMatchObject({
    code: "setup_failed",
    message: expect.stringMatching(/no directory \(ENO.*TMPDIR.*REDIS_URL/),
  });
});
