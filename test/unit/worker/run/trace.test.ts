import { execFileSync } from "node:child_process";
import { constants } from "node:fs";
import { mkdtemp, open, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { newNotice } from "../../../../src/worker/loop/log.ts";
import { traceBeside } from "../../../../src/worker/run/trace.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

test("a disk that does not answer ends the trace after five seconds, and holds nothing up any more", async () => {
  const home = await mkdtemp(join(tmpdir(), "trace-"));
  closeAtEnd(() => rm(home, { recursive: true, force: true }));
  const path = join(home, "trace.jsonl");
  // Who opens it for writing waits for a reader.
  execFileSync("mkfifo", [path]);
  closeAtEnd(async () => {
    const reader = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    await reader.close();
  });
  const clock = handClock();
  const said: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void said.push(line) } });
  const trace = traceBeside(join(home, "workspace"), clock, logger);
  const written = trace(1, [newNotice(0, "one")]);
  clock.advance(5_000);
  await written;
  await trace(1, [newNotice(0, "two")]);
  expect(clock.pending).toBe(0);
  expect(said).toEqual([expect.stringContaining("the trace ends here")]);
});

test("a trace is for its own user only: it has what the agent has read", async () => {
  const home = await mkdtemp(join(tmpdir(), "trace-"));
  closeAtEnd(() => rm(home, { recursive: true, force: true }));
  const trace = traceBeside(join(home, "workspace"), handClock(), createLogger({ level: "silent" }));
  await trace(1, [newNotice(0, "one")]);
  expect((await stat(join(home, "trace.jsonl"))).mode & 0o777).toBe(0o600);
});
