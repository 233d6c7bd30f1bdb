/** The values of flags: what is taken, what is refused, and in which unit it counts. */
import { expect, test } from "vitest";
import {
  durationMs,
  durationOrDaysMs,
  intervalMs,
  openCommand,
  usd,
  wholeUpTo,
} from "../../../src/cli/command.ts";
import { createOutput } from "../../../src/cli/terminal/output.ts";
import { systemClock } from "../../../src/shared/clock.ts";

test("a time has its unit, and is at most a day", () => {
  expect(["250ms", "90s", "5m", "2h", "24h"].map(durationMs)).toEqual([
    250, 90_000, 300_000, 7_200_000, 86_400_000,
  ]);
  for (const wrong of ["0s", "25h", "5", "1d", "-1s", "1.5h", "5 m"])
    expect(() => durationMs(wrong), wrong).toThrow("at most 24h");
});

test("a time back may also be days", () => {
  expect([durationOrDaysMs("2h"), durationOrDaysMs("30d")]).toEqual([7_200_000, 2_592_000_000]);
  for (const wrong of ["0d", "1w", ""]) expect(() => durationOrDaysMs(wrong), wrong).toThrow("2h or 30d");
});

test("the interval of a schedule is refused by the words of the command line, not of the library", () => {
  expect([intervalMs("1s"), intervalMs("366d")]).toEqual([1_000, 31_622_400_000]);
  for (const wrong of ["1ms", "999ms", "367d"])
    expect(() => intervalMs(wrong), wrong).toThrow("Write an interval from 1s to 366d.");
});

test("an amount of USD is above 0, to the millionth", () => {
  expect(["5", "0.50", "0.000001"].map(usd)).toEqual([5, 0.5, 0.000001]);
  for (const wrong of ["0", "0.0", "-1", "1e3", "1,5", ".5", "$5"])
    expect(() => usd(wrong), wrong).toThrow("Write an amount of USD");
});

test("a whole number keeps both its bounds", () => {
  const count = wholeUpTo(10, 2);
  expect([count("2"), count("10")]).toEqual([2, 10]);
  for (const wrong of ["1", "11", "2.5", "", "1e1"])
    expect(() => count(wrong), wrong).toThrow("Write a whole number from 2 to 10.");
});

function opened(env: Record<string, string>, options: { strict?: boolean } = {}) {
  const notes: string[] = [];
  const stream = { isTTY: false, on: () => {}, write: (text: string) => notes.push(text) };
  const { signal } = new AbortController();
  const context = {
    ...{ env, cwd: "/", clock: systemClock, output: createOutput(stream, stream, {}), signal },
    input: Object.assign((async function* () {})(), { isTTY: false }),
    ...{ stopInTwoSteps: () => signal, version: "1", command: "subagent-queue" },
  };
  return { ...openCommand(context, "warn", options), notes };
}

test("the log has the level of the environment, else that of the verb", () => {
  const levelOf = (env: Record<string, string>): unknown => Reflect.get(opened(env).logger, "level");
  expect(levelOf({})).toBe("warn");
  expect(levelOf({ SUBAGENT_LOG_LEVEL: "debug" })).toBe("debug");
});

test("a flag decides about strictness before NODE_ENV does", () => {
  const production = { NODE_ENV: "production" };
  expect(opened(production).config.production).toBe(true);
  expect(opened(production, { strict: false }).config.production).toBe(false);
  expect(opened({}, { strict: true }).config.production).toBe(true);
});

test("a variable that does not exist is mentioned", () => {
  expect(opened({ SUBAGENT_MODLE: "x" }).notes.join("")).toMatch(/^SUBAGENT_MODLE is set, but/);
});
