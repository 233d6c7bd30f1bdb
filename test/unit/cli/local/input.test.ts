import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { EXIT } from "../../../../src/cli/command.ts";
import { readText } from "../../../../src/cli/local/input.ts";
import { runProgram } from "../../../../src/cli/program.ts";
import { createOutput, type OutputStream } from "../../../../src/cli/terminal/output.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { refusal } from "../../../helpers/parents.ts";

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

test("an input that is not UTF-8 is refused, and none of its characters is replaced", async () => {
  const { signal } = new AbortController();
  const read = (...bytes: number[]) => {
    const input = new PassThrough();
    input.end(Buffer.from(bytes));
    return readText("-", { input, signal }, "The message");
  };
  const refused = refusal("invalid_input", /^Standard input is not UTF-8: convert it, .*iconv -t UTF-8\.$/);
  await expect(read(0xff, 0xfe, 0x00, 0x62)).rejects.toMatchObject(refused);
  await expect(read(0x63, 0x61, 0x66, 0xe9)).rejects.toMatchObject(refused);
  expect(await read(...Buffer.from("café 漢 👩‍👧"))).toBe("café 漢 👩‍👧");
});

test("an input that is too long is refused for its length, also where the end of what was read is amid a character", async () => {
  const { signal } = new AbortController();
  const input = typed("x".repeat(256 * 1024 - 1));
  input.write(Buffer.from("éé").subarray(0, 3));
  await expect(readText("-", { input, signal }, "The message")).rejects.toMatchObject(
    refusal("invalid_input", /at most 256 KB/),
  );
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
