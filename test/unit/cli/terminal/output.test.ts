import { expect, test } from "vitest";
import { createOutput, type OutputStream } from "../../../../src/cli/terminal/output.ts";

interface Recorder extends OutputStream {
  written: string[];
  columns: number;
  fail(error: Error): void;
}

function recorder(isTTY: boolean, sink: string[] = []): Recorder {
  let listener: (error: Error) => void = () => {};
  return {
    written: sink,
    isTTY,
    columns: 20,
    rows: 10,
    write: (text) => sink.push(text),
    on: (_event, handler) => {
      listener = handler;
    },
    fail: (error) => listener(error),
  };
}

test("results go to stdout, everything else to stderr", () => {
  const [stdout, stderr] = [recorder(false), recorder(false)];
  const output = createOutput(stdout, stderr, {});
  output.result(["a", "b"]);
  output.note("c");
  output.block(["never drawn"]);
  expect(stdout.written.join("")).toBe("a\nb\n");
  expect(stderr.written.join("")).toBe("c\n");
});

test("the block is drawn in one write, rewritten in place, and not at all when nothing changed", () => {
  const stderr = recorder(true);
  const output = createOutput(recorder(true), stderr, {});
  output.block(["one", "two"]);
  output.block(["one", "two"]);
  output.block(["one", "three"]);
  expect(stderr.written).toEqual([
    "one\u001b[K\ntwo\u001b[K\n\u001b[J",
    "\u001b[2A\rone\u001b[K\nthree\u001b[K\n\u001b[J",
  ]);
});

test("results and notes appear above the block", () => {
  const terminal: string[] = [];
  const output = createOutput(recorder(true, terminal), recorder(true, terminal), {});
  output.block(["block"]);
  output.result("reply");
  output.note("note");
  output.block([]);
  expect(terminal).toEqual([
    "block\u001b[K\n\u001b[J",
    "\u001b[1A\r\u001b[J",
    "reply\n",
    "block\u001b[K\n",
    "\u001b[1A\r\u001b[J",
    "note\n",
    "block\u001b[K\n",
    "\u001b[1A\r\u001b[J",
  ]);
});

test("results in a pipe leave the block on the terminal alone", () => {
  const stderr = recorder(true);
  const output = createOutput(recorder(false), stderr, {});
  output.block(["block"]);
  output.result("reply");
  expect(stderr.written).toHaveLength(1);
});

test("a terminal that became narrower is cleared to the height its lines have now", () => {
  const stderr = recorder(true);
  const output = createOutput(recorder(true), stderr, {});
  output.block(["\u001b[1mtwelve cells\u001b[22m", "x"]);
  stderr.columns = 5;
  output.block([]);
  expect(stderr.written.at(-1)).toBe("\u001b[4A\r\u001b[J");
});

test("a closed pipe ends the writing and nothing else", () => {
  const stdout = recorder(false);
  const output = createOutput(stdout, recorder(false), {});
  stdout.fail(new Error("EPIPE"));
  output.result("lost");
  expect(stdout.written).toEqual([]);
});

test.each([
  [{}, true, true],
  [{ NO_COLOR: "1" }, true, false],
  [{ NO_COLOR: "" }, true, true],
  [{ TERM: "dumb" }, true, false],
  [{}, false, false],
  [{ FORCE_COLOR: "1" }, false, true],
  [{ FORCE_COLOR: "0" }, true, false],
  [{ FORCE_COLOR: "1", NO_COLOR: "1" }, true, false],
])("with %j and a terminal: %j, colour is %j", (env, isTTY, isColoured) => {
  const output = createOutput(recorder(isTTY), recorder(isTTY), env);
  expect(output.style("red", "x") !== "x").toBe(isColoured);
  expect(output.resultStyle("red", "x") !== "x").toBe(isColoured);
});

test("without colour the block is still redrawn, on a dumb terminal it is not", () => {
  const live = (env: Record<string, string>) => createOutput(recorder(true), recorder(true), env).isLive;
  expect([live({ NO_COLOR: "1" }), live({ TERM: "dumb" })]).toEqual([true, false]);
});

test("results are wrapped to the terminal and never in a pipe", () => {
  expect(createOutput(recorder(true), recorder(true), {}).resultColumns).toBe(20);
  expect(createOutput(recorder(false), recorder(true), {}).resultColumns).toBeUndefined();
});

test("results that nobody takes any more are said not to be delivered", async () => {
  const on = () => {};
  const stream = (error?: Error) => ({
    on,
    write: (_text: string, done?: (error?: Error | null) => void) => done?.(error),
  });
  const fine = createOutput(stream(), stream(), {});
  expect(await fine.delivered()).toBe(true);
  const closed = createOutput(stream(new Error("EPIPE")), stream(), {});
  expect(await closed.delivered()).toBe(false);
});

/** A stream that refuses its first text, and takes all that follows, as Node's standard streams do. */
function failingOnce(code: string): OutputStream {
  let hasFailed = false;
  return {
    on: () => {},
    write(_text, done) {
      done?.(hasFailed ? null : Object.assign(new Error(`${code}: refused, write`), { code }));
      hasFailed = true;
    },
  };
}

test("a stream that has refused a result has lost it for good; a reader that is gone has lost nothing that it wants", async () => {
  const full = createOutput(failingOnce("ENOSPC"), recorder(false), {});
  full.result("the only copy");
  expect(await full.delivered()).toBe(false);
  expect(await full.delivered()).toBe(false);
  expect(await full.lost()).toMatchObject({ code: "ENOSPC" });
  const closed = createOutput(failingOnce("EPIPE"), recorder(false), {});
  closed.result("unread");
  expect([await closed.delivered(), await closed.lost()]).toEqual([false, undefined]);
});

test.each([
  [true, {}, "a sentence that is\nwider than the\nterminal\n  subagent-queue run 'a prompt'\n"],
  [true, { TERM: "dumb" }, "a sentence that is wider than the terminal\n  subagent-queue run 'a prompt'\n"],
  [false, {}, "a sentence that is wider than the terminal\n  subagent-queue run 'a prompt'\n"],
])(
  "a note on a terminal (%j, %j) breaks between words; an indented line, which may be pasted, stays whole",
  (isTTY, env, told) => {
    const stderr = recorder(isTTY);
    const output = createOutput(recorder(isTTY), stderr, env);
    output.note(["a sentence that is wider than the terminal", "  subagent-queue run 'a prompt'"]);
    expect(stderr.written.join("")).toBe(told);
  },
);

test("a note is wrapped as it is printed: by the words that replace others, and not by its colours", () => {
  const stderr = recorder(true);
  const output = createOutput(recorder(true), stderr, {}, (line) =>
    line.replace("saq ", "npx subagent-queue "),
  );
  output.note(`${output.style("red", "failed:")} 12345678901`);
  output.note("see saq doctor");
  expect(stderr.written).toEqual([
    "\u001b[31mfailed:\u001b[39m 12345678901\n",
    "see npx\nsubagent-queue\ndoctor\n",
  ]);
});
