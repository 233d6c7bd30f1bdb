import { once } from "node:events";
import { createRequire } from "node:module";
import { describe, expect, test } from "vitest";
import { createLogger, guardedLogger, type Logger } from "../../../src/shared/logger.ts";

/** What a logger writes for a message, without level and time. */
function messageWritten(message: string): string {
  const lines: string[] = [];
  createLogger({ destination: { write: (line) => void lines.push(line) } }).info(message);
  return JSON.parse(lines.join("")).msg;
}

test.each([
  ["a key by its form", "the key sk-ant-0123456789 was refused", "the key [redacted] was refused"],
  ["a bearer token", "sent Authorization: Bearer abc.def to it", "sent Authorization: [redacted] to it"],
  [
    "the login of an address",
    "reading https://me:hush@host/a failed",
    "reading https://[redacted]@host/a failed",
  ],
])("%s that nobody named as a secret stands in no log line", (_, message, written) => {
  expect(messageWritten(message)).toBe(written);
});

test("a silent logger writes nothing and does not load pino", () => {
  const require = createRequire(import.meta.url);
  const pino = require.resolve("pino");
  delete require.cache[pino];
  const lines: string[] = [];
  const logger = createLogger({ level: "silent", destination: { write: (line) => void lines.push(line) } });
  logger.child({ a: 1 }).error("lost");
  expect(guardedLogger(logger)).toBe(logger);
  expect([lines, require.cache[pino]]).toEqual([[], undefined]);
  createLogger({ level: "error" });
  expect(require.cache[pino]).toBeDefined();
});

test("an ordinary line is written as it is", () => {
  const message = "a task-list of https://host/a, asked by the bearer of news";
  expect(messageWritten(message)).toBe(message);
});

/** A logger of a program: each of its methods does `work`. */
function foreign(work: (...line: unknown[]) => unknown): Logger {
  return { debug: work, info: work, warn: work, error: work, child: work as Logger["child"] };
}

/** The warning of the process that `work` brings about. */
async function warningOf(work: () => void): Promise<Error> {
  const warned = once(process, "warning");
  work();
  const [warning] = await warned;
  return warning;
}

describe("the guard of a logger", () => {
  test("hands on each line as it is, and what its children are told", () => {
    const lines: unknown[] = [];
    const child = foreign((...line) => void lines.push(line));
    const guard = guardedLogger({ ...foreign((...line) => void lines.push(line)), child: () => child });
    guard.warn({ a: 1 }, "one");
    guard.child({ b: 2 }).error("two");
    expect(lines).toEqual([[{ a: 1 }, "one"], ["two"]]);
  });

  test("calls the methods as methods, and looks them up with each line", () => {
    const program = { name: "mine", told: "", ...foreign(() => undefined) };
    const guard = guardedLogger(program);
    program.info = function (this: typeof program, line: string) {
      this.told = `${this.name}: ${line}`;
    };
    guard.info("hello");
    expect(program.told).toBe("mine: hello");
  });

  test.each([
    ["throws", () => refuse(new Error("full"))],
    ["rejects", () => Promise.reject(new Error("full"))],
  ])("tells once that a logger %s, with its words, and throws nothing", async (_, work) => {
    const guard = guardedLogger(foreign(work));
    const warning = await warningOf(() => {
      guard.child({ a: 1 }).warn("a line");
      guard.error("another");
    });
    expect(warning).toMatchObject({ message: "The logger fails: full", code: "SUBAGENT_LOGGER" });
    const next = await warningOf(() => {
      guard.error("a third");
      process.emitWarning("the next");
    });
    expect(next.message).toBe("the next");
  });

  test("uses the logger itself where its child is none", () => {
    const lines: unknown[] = [];
    const guard = guardedLogger({
      ...foreign((line) => void lines.push(line)),
      child: (() => undefined) as unknown as Logger["child"],
    });
    guard.child({ a: 1 }).info("told");
    expect(lines).toEqual(["told"]);
  });

  test("is none around a logger that was made here, whose sink may fail, nor around a guard", async () => {
    for (const write of [() => refuse(new Error("full")), () => Promise.reject(new Error("full"))]) {
      const own = createLogger({ destination: { write } });
      expect(guardedLogger(own)).toBe(own);
      own.child({ a: 1 }).error("a line");
    }
    const guard = guardedLogger(foreign(() => undefined));
    expect(guardedLogger(guard)).toBe(guard);
  });
});

function refuse(error: Error): never {
  throw error;
}

test.each([
  [{ level: "loud" }, "level must be one of trace, debug, info, warn, error, fatal, silent"],
  [{ destination: "app.log" }, "destination must be a file descriptor or an object with write"],
  [{ destination: -1 }, "destination must be a file descriptor or an object with write"],
  [{ dest: 2 }, "dest is no option of a logger"],
])("a logger of %j is refused, and the option named", (options, problem) => {
  expect(() => Reflect.apply(createLogger, undefined, [options])).toThrow(
    expect.objectContaining({ code: "invalid_config", message: `The logger cannot be made: ${problem}.` }),
  );
});
