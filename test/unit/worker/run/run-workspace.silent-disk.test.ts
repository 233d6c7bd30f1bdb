/** Guarantee: a disk that never answers holds no run: a run that waits for it is given up in time, and soon after it is stopped. */
import { expect, test } from "vitest";
import { StopSignal } from "../../../../src/shared/stop-signal.ts";
import { onDisk, RunWorkspace } from "../../../../src/worker/run/run-workspace.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { refusal } from "../../../helpers/parents.ts";

const SILENT = refusal("setup_failed", /does not answer/);

/** Work on a disk that never answers; `signal` is the one that it was given. */
function silent() {
  const clock = handClock();
  const stop = new StopSignal();
  const given: { signal?: AbortSignal } = {};
  const never = (signal: AbortSignal) => {
    given.signal = signal;
    return new Promise<never>(() => {});
  };
  let isOver = false;
  const waiting = onDisk(clock, stop, never);
  void waiting.catch(() => {
    isOver = true;
  });
  const isOverAfter = async (ms: number) => {
    clock.advance(ms);
    await new Promise(setImmediate);
    return isOver;
  };
  return { clock, stop, given, waiting, isOverAfter };
}

test("work on a silent disk is given up after thirty seconds, and told to end", async () => {
  const { given, waiting, isOverAfter } = silent();
  expect([await isOverAfter(29_999), given.signal?.aborted]).toEqual([false, false]);
  expect([await isOverAfter(1), given.signal?.aborted]).toEqual([true, true]);
  await expect(waiting).rejects.toMatchObject(SILENT);
});

test("after a stop it is told to end at once, and given up a second later", async () => {
  const { clock, stop, given, isOverAfter } = silent();
  stop.stop();
  expect([await isOverAfter(999), given.signal?.aborted]).toEqual([false, true]);
  expect(await isOverAfter(1)).toBe(true);
  expect(clock.pending).toBe(0);
});

test("work that ends, well or not, leaves no timer, and is not stopped afterwards", async () => {
  const clock = handClock();
  const stop = new StopSignal();
  let signal: AbortSignal | undefined;
  const answering = async (given: AbortSignal) => {
    signal = given;
    return "done";
  };
  expect(await onDisk(clock, stop, answering)).toBe("done");
  await expect(onDisk(clock, stop, () => Promise.reject(new RangeError("full")))).rejects.toThrow("full");
  expect(clock.pending).toBe(0);
  stop.stop();
  expect([signal?.aborted, clock.pending]).toEqual([false, 0]);
});

test("a workspace that cannot be opened because the disk is silent stops no run", async () => {
  const clock = handClock();
  const address = { tenant: "default", parentId: "p", uid: "u", agentId: "a" };
  const options = { ...address, root: "/dev/null/never", roots: [], expected: false, clock };
  const opening = new RunWorkspace(options, new StopSignal()).open();
  // The disk cannot answer meanwhile: that takes a turn of the event loop.
  clock.advance(30_000);
  await expect(opening).rejects.toMatchObject(SILENT);
});
