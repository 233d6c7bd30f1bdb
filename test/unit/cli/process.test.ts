import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { EXIT } from "../../../src/cli/command.ts";
import { runService } from "../../../src/cli/process.ts";
import { whenAborted } from "../../../src/shared/stop-signal.ts";
import { createManualClock } from "./manual-clock.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
type Signal = (typeof SIGNALS)[number];

const before = new Map(SIGNALS.map((signal) => [signal, process.listeners(signal)]));
const added = (signal: Signal) =>
  process.listeners(signal).filter((listener) => !before.get(signal)?.includes(listener));
const { monotonicMs, advance } = createManualClock();
/** Delivers a signal to the handlers of the service alone: the runner of this test has its own. */
const deliver = (signal: Signal) => added(signal).forEach((listener) => void listener(signal));

beforeEach(() => {
  vi.spyOn(process, "exit").mockImplementation((() => {}) as unknown as typeof process.exit);
});
afterEach(() => {
  vi.restoreAllMocks();
  process.exitCode = undefined;
});

/** Runs a service whose work ends with 7 at its first signal, or with 8 at the second one if it stops in two steps. */
function service(stopsInTwoSteps: boolean) {
  const stopping: string[] = [];
  const aborted: string[] = [];
  const ended = runService(
    async (signal, stopInTwoSteps) => {
      const second = stopsInTwoSteps ? stopInTwoSteps() : undefined;
      await whenAborted(signal);
      aborted.push("first");
      if (!second) return 7;
      await whenAborted(second);
      aborted.push("second");
      return 8;
    },
    { monotonicMs, onStopping: (signal) => void stopping.push(signal), onUncaught: () => {} },
  );
  return { stopping, aborted, ended };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test.each(SIGNALS)(
  "the first %s stops the work, whose exit code counts, and leaves no handler",
  async (signal) => {
    const { stopping, ended } = service(false);
    deliver(signal);
    await ended;
    expect(stopping).toEqual([signal]);
    expect(process.exitCode).toBe(7);
    expect(process.exit).toHaveBeenCalledExactlyOnceWith();
    expect(SIGNALS.flatMap(added)).toEqual([]);
  },
);

test("a second signal ends the process at once as interrupted", async () => {
  let finish = () => {};
  const ended = runService(() => new Promise<number>((resolve) => (finish = () => resolve(0))), {
    monotonicMs,
    onStopping: () => {},
    onUncaught: () => {},
  });
  deliver("SIGTERM");
  expect(process.exit).not.toHaveBeenCalled();
  deliver("SIGINT");
  expect(process.exit).toHaveBeenCalledExactlyOnceWith(EXIT.interrupted);
  finish();
  await ended;
});

test("work that stops in two steps: Ctrl-C begins the first, another Ctrl-C the second, and the third ends the process", async () => {
  const { stopping, aborted, ended } = service(true);
  deliver("SIGINT");
  await settled();
  expect({ stopping, aborted }).toEqual({ stopping: [], aborted: ["first"] });
  advance(100);
  deliver("SIGINT");
  expect(process.exit).not.toHaveBeenCalled();
  advance(100);
  deliver("SIGINT");
  expect(process.exit).toHaveBeenCalledExactlyOnceWith(EXIT.interrupted);
  await ended;
  expect(aborted).toEqual(["first", "second"]);
  expect(process.exitCode).toBe(8);
});

test.each(["SIGTERM", "SIGHUP"] as const)(
  "%s stops both steps at once, because nobody is there for another Ctrl-C",
  async (signal) => {
    const { aborted, ended } = service(true);
    deliver(signal);
    await ended;
    expect(aborted).toEqual(["first", "second"]);
    expect(process.exitCode).toBe(8);
  },
);

test("a signal that `timeout` sends to the command and to its process group is one signal", async () => {
  const { aborted, ended } = service(true);
  deliver("SIGINT");
  advance(99);
  deliver("SIGINT");
  await settled();
  expect(aborted).toEqual(["first"]);
  advance(1);
  deliver("SIGINT");
  await ended;
  expect(aborted).toEqual(["first", "second"]);
  expect(process.exit).toHaveBeenCalledExactlyOnceWith();
});
