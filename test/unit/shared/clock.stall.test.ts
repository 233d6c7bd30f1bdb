import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test, vi } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";

/** Stops the event loop of this process for `ms`, as SIGSTOP and a suspended machine do. */
function stall(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

test.each([
  ["is read before time is up", false, ["an answer", "time is up"]],
  ["may still cancel its time limit", true, ["an answer"]],
])("what arrived while the process stood still %s", async (_, cancels, seen) => {
  const order: string[] = [];
  // After this come the timers of the next turn, before its input.
  await new Promise((resolve) => setImmediate(resolve));
  const child = spawn("sh", ["-c", "echo an answer"], { stdio: ["ignore", "pipe", "ignore"] });
  const closed = once(child, "close");
  const limit = systemClock.timeout(50, () => order.push("time is up"));
  child.stdout.on("data", (text) => {
    order.push(String(text).trim());
    if (cancels) limit.cancel();
  });
  stall(600);
  await closed;
  await systemClock.sleep(20);
  expect(order).toEqual(seen);
});

test("a timeout that is on time calls at once", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "performance"] });
  try {
    const called = vi.fn();
    systemClock.timeout(50, called);
    vi.advanceTimersToNextTimer();
    expect(called).toHaveBeenCalledOnce();
  } finally {
    vi.useRealTimers();
  }
});
