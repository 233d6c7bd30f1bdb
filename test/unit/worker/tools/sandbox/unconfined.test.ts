/** Guarantee: a command without a sandbox starts where the last one ended, knows no home but its workspace, and ends with its group. */
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import type { Command, CommandOutcome } from "../../../../../src/worker/tools/sandbox/runner.ts";
import { createUnconfined } from "../../../../../src/worker/tools/sandbox/unconfined.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { latch } from "../../../../helpers/latch.ts";
import { until } from "../../../../helpers/until.ts";
import { openScene } from "../scene.ts";

const { workspace, home } = await openScene();

/** Runs a command, which is killed only if it hangs. */
function run(script: string, more: Partial<Command> = {}, clock = systemClock) {
  const { signal } = new AbortController();
  return createUnconfined(clock).run({ script, workspace, timeoutMs: 15_000, signal, ...more });
}

it("begins in the workspace, or where it is told to, and its home is the workspace", async () => {
  mkdirSync(join(home, "below"));
  expect((await run("pwd; echo ~")).output).toBe(`${home}\n${home}\n`);
  expect((await run("pwd", { cwd: join(home, "below") })).output).toBe(`${join(home, "below")}\n`);
});

it("reads the end of file where it waits for input", async () => {
  expect(await run("cat; echo over")).toMatchObject({ output: "over\n", exitCode: 0 });
});

/** Kills the shell's only child so far: its guardian. */
const KILL_GUARDIAN = "read -r guardian < /proc/$$/task/$$/children; kill -9 $guardian";

it("ends at once with the processes of its group, also if it has killed its guardian", async () => {
  const clock = handClock();
  const ended = latch<CommandOutcome>();
  void run(`${KILL_GUARDIAN}; sleep 43221 & echo $!`, {}, clock).then(ended.open);
  closeAtEnd(() => clock.advance(15_000));
  // The clock stands still: nothing waits for the time that a process outside the group would have.
  await until(() => ended.isOpen, { timeoutMs: 20_000 });
  const { output, exitCode } = await ended.opened;
  expect(exitCode).toBe(0);
  await until(() => !existsSync(`/proc/${Number(output)}`));
});

it("is over when its shell is, though a process that left the group holds its output", async () => {
  const ended = latch<CommandOutcome>();
  const left = join(home, "left");
  const script = "setsid sh -c 'echo $$ > left; exec sleep 43222' & until [ -s left ]; do :; done";
  void run(script, { timeoutMs: 60_000 }).then(ended.open);
  const pid = await until(() => Number(readFileSync(left, "utf8")));
  closeAtEnd(() => void process.kill(pid, "SIGKILL"));
  await until(() => ended.isOpen, { timeoutMs: 20_000 });
  expect(await ended.opened).toMatchObject({ exitCode: 0 });
});

it("says why it was killed first, if a second reason comes before its end", async () => {
  const stop = new AbortController();
  const clock = handClock();
  const running = run("echo begun > begun; sleep 43223", { timeoutMs: 1_000, signal: stop.signal }, clock);
  await until(() => existsSync(join(home, "begun")));
  clock.advance(1_000);
  stop.abort();
  expect(await running).toMatchObject({ killed: "timeout" });
});
