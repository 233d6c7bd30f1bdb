/** Guarantee: a command is over only when none of its processes is left, even those that let go of its output. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createBubblewrap } from "../../../../../src/worker/tools/sandbox/bubblewrap.ts";
import type { Command, Runner } from "../../../../../src/worker/tools/sandbox/runner.ts";
import { openWorkspace } from "../../../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { commandLinesWith } from "../../../../helpers/command-lines.ts";

/** Seconds that no other test sleeps: with them the processes of this one are found again. */
const MARK = "97531";

/** Processes that hold no output, each with memory of its own that the kernel must give back. */
const HIDDEN_CROWD = `(exec >&- 2>&- 3>&-; exec perl -e '
  for (1 .. 60) { fork or do { $x = "a" x 4_000_000; sleep ${MARK} } } open F, ">all"; sleep ${MARK}') &
until [ -e all ]; do sleep 0.05; done; echo started`;

const machine = process.arch;
const here = createBubblewrap({ clock: systemClock, asRoot: process.getuid?.() === 0, machine }) as Runner;

async function run(script: string, options: Partial<Command> = {}, runner = here) {
  const root = mkdtempSync(join(tmpdir(), "bubblewrap-"));
  closeAtEnd(() => rmSync(root, { recursive: true, force: true }));
  const place = { root, tenant: "default", parentId: "p", agentId: "a1", uid: "u1" };
  const { workspace } = await openWorkspace({ ...place, expected: false, clock: systemClock, roots: [] });
  const { signal } = new AbortController();
  return await runner.run({ script, workspace, timeoutMs: 60_000, signal, ...options });
}

it("a command is over when the last of its processes is, though they hold no output", async () => {
  const outcome = await run(HIDDEN_CROWD);
  expect(commandLinesWith(MARK)).toEqual([]);
  expect(outcome).toMatchObject({ output: "started\n", exitCode: 0 });
});

it("a command that is stopped is over when the last of its processes is", async () => {
  const stop = new AbortController();
  const running = run(`${HIDDEN_CROWD}; wait`, { signal: stop.signal });
  await expect.poll(() => commandLinesWith(MARK).length, { timeout: 60_000 }).toBeGreaterThan(60);
  stop.abort();
  const outcome = await running;
  expect(commandLinesWith(MARK)).toEqual([]);
  expect(outcome).toMatchObject({ killed: "stopped" });
});

it("no process of a command can name another one as its first", async () => {
  const held = "for d in /proc/$$/fd/*; do [ -S $d ] && basename $d; done";
  expect((await run(held)).output).toBe("1\n2\n3\n");
});

it("waits ten seconds at most for a process that the kernel cannot end", async () => {
  const directory = mkdtempSync(join(tmpdir(), "bubblewrap-"));
  closeAtEnd(() => rmSync(directory, { recursive: true, force: true }));
  const bwrap = join(directory, "bwrap");
  // We are the process that does not end.
  const script = `#!/bin/sh\necho '{ "child-pid": ${process.pid} }' >&5\necho ready >&3\ncat <&4 >/dev/null`;
  writeFileSync(bwrap, script, { mode: 0o755 });
  const clock = { ...systemClock, monotonicMs: () => performance.now() * 50 };
  const startedMs = clock.monotonicMs();
  const runner = createBubblewrap({ clock, asRoot: false, machine, bwrap }) as Runner;
  expect(await run("true", {}, runner)).toMatchObject({ exitCode: 0 });
  expect(clock.monotonicMs() - startedMs).toBeGreaterThan(10_000);
});
