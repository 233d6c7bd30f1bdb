/** Guarantee: a private server that gets no process, or never answers, is given up with a sentence and leaves nothing. */
import { ChildProcess } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { startPrivateRedis } from "../../../../src/cli/local/private-redis.ts";
import { type Clock, systemClock } from "../../../../src/shared/clock.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { latch } from "../../../helpers/latch.ts";

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

/** A PATH whose server does nothing, and the directory that TMPDIR names. */
function scene() {
  const [bin, temporary] = ["path-", "place-"].map((name) => {
    const directory = mkdtempSync(join(tmpdir(), name));
    closeAtEnd(() => rmSync(directory, { recursive: true, force: true }));
    return directory;
  });
  writeFileSync(join(bin ?? "", "redis-server"), "#!/bin/sh\nexec sleep 600\n", { mode: 0o755 });
  vi.stubEnv("TMPDIR", temporary);
  return { searchPath: bin, temporary: temporary ?? "" };
}

test("a server for which the machine gives no process", async () => {
  const { searchPath, temporary } = scene();
  const shell = ChildProcess.prototype as unknown as { spawn(options: { file: string }): number };
  const { spawn } = shell;
  vi.spyOn(shell, "spawn").mockImplementation(function (this: typeof shell, options) {
    return spawn.call(this, { ...options, file: "/no/such/shell" });
  });
  await expect(startPrivateRedis({ searchPath, clock: systemClock })).rejects.toMatchObject({
    code: "setup_failed",
    message: expect.stringMatching(/^redis-server could not be started: .*spawn \/no\/such\/shell ENOENT/),
  });
  expect(readdirSync(temporary)).toEqual([]);
});

test("a server that takes connections and never answers", async () => {
  const { searchPath, temporary } = scene();
  const connected = latch();
  const clock: Clock = {
    ...systemClock,
    sleep: (ms, signal) => (ms === 10_000 ? connected.opened : systemClock.sleep(ms, signal)),
  };
  const starting = startPrivateRedis({ searchPath, clock });
  const silent = createServer(() => connected.open());
  const [directory = ""] = readdirSync(temporary);
  silent.listen(join(temporary, directory, "redis.sock"));
  closeAtEnd(() => void silent.close());
  await expect(starting).rejects.toMatchObject({
    code: "setup_failed",
    message: "redis-server could not be started: it did not answer within 10 s",
  });
  expect(readdirSync(temporary)).toEqual([]);
});
