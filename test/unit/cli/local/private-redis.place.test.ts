/** Where a private server is looked for, and where it lies. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { findServer, startPrivateRedis } from "../../../../src/cli/local/private-redis.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

function scratch(): string {
  const directory = mkdtempSync(join(tmpdir(), "place-"));
  closeAtEnd(() => rmSync(directory, { recursive: true }));
  return directory;
}

/** Writes a server that says where its socket would be, and ends. */
function talkingServer(directory: string): void {
  writeFileSync(join(directory, "redis-server"), '#!/bin/sh\necho "$@"\nexit 1\n', { mode: 0o755 });
}

test("a socket whose path would be too long for the system lies in /tmp", async () => {
  const base = scratch();
  talkingServer(base);
  const socketOf = async (place: string) => {
    mkdirSync(place, { recursive: true });
    vi.stubEnv("TMPDIR", place);
    const refused = await startPrivateRedis({ searchPath: base, clock: systemClock }).catch(String);
    return /--unixsocket (\S+)/.exec(String(refused))?.[1];
  };
  expect(await socketOf(join(base, "short"))).toMatch(`${base}/short/subagent-queue-`);
  expect(await socketOf(join(base, "l".repeat(100)))).toMatch(/^\/tmp\/subagent-queue-\w+\/redis\.sock$/);
});

test("an empty part of the PATH is not the current directory", () => {
  const base = scratch();
  talkingServer(base);
  const before = process.cwd();
  process.chdir(base);
  try {
    expect([findServer(":/nowhere:"), findServer("")]).toEqual([undefined, undefined]);
  } finally {
    process.chdir(before);
  }
  expect(findServer(base)?.path).toBe(join(base, "redis-server"));
});
