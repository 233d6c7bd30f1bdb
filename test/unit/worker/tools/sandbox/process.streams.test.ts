import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { runProcess } from "../../../../../src/worker/tools/sandbox/process.ts";

/** Runs a program of bash that reads no command. */
function run(program: string) {
  return runProcess({
    ...{ file: "/bin/bash", args: ["-c", program], env: { PATH: "/usr/bin:/bin" }, cwd: "/" },
    ...{ command: "", inputs: [], timeoutMs: 20_000, clock: systemClock },
    signal: new AbortController().signal,
  });
}

it("what a launcher says on standard error before it fails is in its output", async () => {
  expect(await run("echo no licence >&2; exit 3")).toMatchObject({ output: "no licence\n", exitCode: 3 });
});

it("a process without a namespace of its own cannot say which other process to wait for", async () => {
  const { output } = await run(`echo '{"child-pid": ${process.pid}}' >&5; readlink /proc/$$/fd/5`);
  expect(output).toBe("/dev/null\n");
});

it("of a long output no character of four bytes is cut, wherever it is parted", async () => {
  for (const around of ["", "a", "ab", "abc"]) {
    const { output } = await run(`echo '${around}'; yes 😀 | head -20000 | tr -d '\\n'; echo '${around}'`);
    expect(output).toMatch(/\n\[\d+ bytes left out here\]\n/);
    expect(output, around).not.toContain("\uFFFD");
  }
});
