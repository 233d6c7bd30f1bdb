import { expect, test } from "vitest";
import { spawnNode } from "../../../helpers/processes.ts";

const SILENCE_MS = 2_000;

/** A process whose event loop stands still so often and so long. */
function standingStill(stallMs: number, times: number, isDebugged = false) {
  const args = [SILENCE_MS, stallMs, times, isDebugged].map(String);
  return spawnNode("test/helpers/fixtures/watched-process.ts", { args });
}

test("a process that stands still for longer than it may is ended, and says so", async () => {
  const watched = await standingStill(2 * SILENCE_MS, 1);
  expect(await watched.closed).toEqual({ code: null, signal: "SIGKILL" });
  expect(watched.stderr.join("\n")).toContain(
    `worker watched (pid ${watched.pid}) is ended: its event loop stood still for ${SILENCE_MS} ms`,
  );
});

test("several short stalls are no long one, and a watchdog that is stopped keeps no process alive", async () => {
  const watched = await standingStill(SILENCE_MS / 3, 5);
  expect(await watched.closed).toEqual({ code: 0, signal: null });
  expect(watched.stdout).toEqual(["lives"]);
});

test("a process with a debugger is not ended, however long it stands still", async () => {
  const watched = await standingStill(2 * SILENCE_MS, 1, true);
  expect(await watched.closed).toEqual({ code: 0, signal: null });
  expect(watched.stdout).toEqual(["lives"]);
});
