import { expect, test } from "vitest";
import { spawnNode } from "../helpers/processes.ts";

/** Runs the fixture in a vitest of its own and returns how it ended and what it printed. */
async function runFixture(play: string): Promise<{ code: number | null; lastLine: string; output: string }> {
  const run = await spawnNode("node_modules/vitest/vitest.mjs", {
    args: ["run", "--config", "test/setup/fixtures/vitest.config.ts", "--no-color"],
    // Left in place, our runner's variables would make the child's runner take itself for a worker of ours.
    env: { PLAY: play, VITEST: undefined, VITEST_POOL_ID: undefined, VITEST_WORKER_ID: undefined },
  });
  const { code } = await run.closed;
  return { code, lastLine: run.stdout.at(-1) ?? "", output: [...run.stdout, ...run.stderr].join("\n") };
}

test("a file whose tests all pass fails for what it leaves running, and the report names each of it", async () => {
  const { code, lastLine, output } = await runFixture("leak");
  expect({ code, lastLine }).toEqual({ code: 1, lastLine: "1 passed, 1 failed" });
  const counted = [
    "1 x Timeout",
    "1 x ProcessWrap",
    "1 x WorkerThread",
    "1 x TCPServerWrap",
    "2 x TCPSocketWrap",
  ];
  const report = output.split("\n").find((line) => line.includes("this test file left running"));
  expect(counted.filter((part) => !report?.includes(part))).toEqual([]);
  expect(output).toMatch(/Timeout made\s+at .*leaks\.fixture\.ts:\d+/);
  expect(output).toMatch(/ChildProcess pid \d+: .*node/);
  expect(output).toMatch(/Server on .*127\.0\.0\.1/);
  expect(output).toMatch(/Socket \d+ -> 127\.0\.0\.1:\d+ made\s+at .*leaks\.fixture\.ts:\d+/);
});

test("a file that closes what it opened passes", async () => {
  const { code, lastLine } = await runFixture("close");
  expect({ code, lastLine }).toEqual({ code: 0, lastLine: "1 passed, 0 failed" });
});

test("what ends by itself within two seconds is waited for", async () => {
  const { code, lastLine } = await runFixture("linger");
  expect({ code, lastLine }).toEqual({ code: 0, lastLine: "1 passed, 0 failed" });
});
