import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { EXIT } from "../../../../src/cli/command.ts";
import { readText } from "../../../../src/cli/local/input.ts";
import { runProgram } from "../../../../src/cli/program.ts";
import { createOutput, type OutputStream } from "../../../../src/cli/terminal/output.ts";
import { systemClock } from "../../../../src/shared/clock.ts";

/** Standard input on which somebody types `texts`, and then nothing. */
function typed(...texts: string[]): PassThrough {
  const input = new PassThrough();
  for (const text of texts) input.write(text);
  return input;
}

test("what is typed until the end of the input is the text", async () => {
  const input = typed("say ", "hello");
  input.end();
  const { signal } = new AbortController();
  expect(await readText("-", { input, signal }, "The message")).toBe("say hello");
});

test("a signal ends the reading of an input that does not end, also one that came before", async () => {
  for (const isEarly of [true, false]) {
    const stop = new AbortController();
    if (isEarly) stop.abort();
    const reading = readText("-", { input: typed("half"), signal: stop.signal }, "The message");
    stop.abort();
    await expect(reading).rejects.toBe(stop.signal.reason);
  }
});

test("a command that is stopped while it reads says nothing and ends as interrupted", async () => {
  const said: string[] = [];
  const stream: OutputStream = {
    on: () => {},
    write(text, done) {
      said.push(text);
      done?.();
    },
  };
  const stop = new AbortController();
  const input = {
    async *[Symbol.asyncIterator]() {
      yield "half";
      stop.abort();
      await new Promise(() => {});
    },
  };
  const code = await runProgram(["run", "-"], {
    ...{ env: {}, cwd: "/", clock: systemClock, input, version: "0", command: "subagent-queue" },
    output: createOutput(stream, stream, {}),
    signal: stop.signal,
    stopInTwoSteps: () => stop.signal,
  });
  expect([code, said.join("")]).toEqual([EXIT.interrupted, ""]);
});
