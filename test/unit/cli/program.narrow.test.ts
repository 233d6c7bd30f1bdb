/** How a wrong command line is told on a narrow terminal. */
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { runProgram } from "../../../src/cli/program.ts";
import { createOutput } from "../../../src/cli/terminal/output.ts";
import { systemClock } from "../../../src/shared/clock.ts";

test("a wrong command line is told in lines that break between words", async () => {
  let told = "";
  const stream = {
    ...{ on: () => {}, isTTY: true, columns: 40, rows: 20 },
    write(text: string, done?: () => void) {
      told += text;
      done?.();
    },
  };
  const env = { NO_COLOR: "1" };
  const { signal } = new AbortController();
  const code = await runProgram(["spawn"], {
    ...{ env, cwd: "/", clock: systemClock, output: createOutput(stream, stream, env), signal },
    ...{ input: Readable.from([]), stopInTwoSteps: () => signal, version: "1", command: "subagent-queue" },
  });
  expect([code, told.trimEnd().split("\n")]).toEqual([
    2,
    ["subagent-queue: missing required", "argument 'name' (--help shows the", "usage)"],
  ]);
});
