import { expect, test, vi } from "vitest";
import { until } from "./until.ts";

test("until resolves with the first truthy value and looks no further", async () => {
  let looks = 0;
  expect(await until(() => (++looks === 3 ? "third" : undefined), { everyMs: 1 })).toBe("third");
  expect(looks).toBe(3);
});

test("until treats a probe that throws as not yet", async () => {
  let looks = 0;
  const probe = () => {
    looks += 1;
    if (looks < 2) throw new Error("too early");
    return true;
  };
  expect(await until(probe, { everyMs: 1 })).toBe(true);
});

test("until gives up at its deadline and shows what it waited for and the last value", async () => {
  const waiting = until(() => ({ ready: false }).ready, {
    timeoutMs: 20,
    everyMs: 1,
    what: "the light to turn green",
  });
  await expect(waiting).rejects.toThrow(/20 ms for: the light to turn green\nlast value: false/);
});

test("until shows the last error when the probe never stopped throwing", async () => {
  const probe = () => {
    throw new Error("no such door");
  };
  await expect(until(probe, { timeoutMs: 20, everyMs: 1 })).rejects.toThrow(
    /last error: Error: no such door/,
  );
});

test("until gives up a probe that does not settle", async () => {
  const waiting = until(() => new Promise(() => {}), { timeoutMs: 20 });
  await expect(waiting).rejects.toThrow(/last error: Error: the probe has not settled/);
});

test("until goes on looking while a test has fake timers installed", async () => {
  vi.useFakeTimers();
  try {
    let looks = 0;
    expect(await until(() => ++looks > 2, { everyMs: 1 })).toBe(true);
  } finally {
    vi.useRealTimers();
  }
});

test("what lasts is looked at less often", async () => {
  let looks = 0;
  const never = () => {
    looks += 1;
    return false;
  };
  await expect(until(never, { timeoutMs: 1_000 })).rejects.toThrow("still waiting");
  // Every 10 ms it would be a hundred.
  expect(looks).toBeLessThan(70);
});
