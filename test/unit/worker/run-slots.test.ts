import { expect, test } from "vitest";
import { createRunSlots, ISOLATION_WAIT_MS, type RunSlot } from "../../../src/worker/run-slots.ts";
import { handClock } from "../../helpers/hand-clock.ts";

function rig() {
  const clock = handClock();
  const draining = new AbortController();
  const doors: string[] = [];
  const slots = createRunSlots({
    clock,
    draining: draining.signal,
    pause: () => void doors.push("paused"),
    resume: () => void doors.push("resumed"),
  });
  const enter = (): RunSlot => {
    const place = slots.admit();
    if (!place) throw new Error("nobody is admitted");
    return place;
  };
  return { clock, draining, doors, slots, enter };
}

test("runs stand beside each other, and nobody is given notice", () => {
  const { enter, doors } = rig();
  expect([enter(), enter()].map(({ mustHandBack }) => mustHandBack)).toEqual([false, false]);
  expect(doors).toEqual([]);
});

test("a suspect is alone when the last of the others has left, and no run is admitted after it asks to be alone", async () => {
  const { enter, doors, slots } = rig();
  const [suspect, first, second] = [enter(), enter(), enter()];
  let alone: boolean | undefined;
  const isolating = suspect.isolate().then((is) => {
    alone = is;
  });
  expect([suspect, first, second].map(({ mustHandBack }) => mustHandBack)).toEqual([false, true, true]);
  expect(slots.admit()).toBeUndefined();
  first.leave();
  await Promise.resolve();
  expect(alone).toBeUndefined();
  second.leave();
  await isolating;
  expect(alone).toBe(true);
  expect(slots.admit()).toBeUndefined();
  expect(doors).toEqual(["paused"]);
});

test.for(["endIsolation", "leave"] as const)("a suspect that %ss lets others in again, once", async (how) => {
  const { enter, doors, slots } = rig();
  const suspect = enter();
  expect(await suspect.isolate()).toBe(true);
  suspect[how]();
  suspect[how]();
  expect(doors).toEqual(["paused", "resumed"]);
  expect(slots.admit()).toBeDefined();
});

test("the step of a run that is no suspect lets nobody in", async () => {
  const { enter, slots } = rig();
  const [suspect, other] = [enter(), enter()];
  const isolating = suspect.isolate();
  other.endIsolation();
  expect(slots.admit()).toBeUndefined();
  other.leave();
  other.leave();
  expect(await isolating).toBe(true);
});

test("a suspect that has proved itself makes room for the next one like everybody else", async () => {
  const { enter } = rig();
  const first = enter();
  await first.isolate();
  first.endIsolation();
  const second = enter();
  const isolating = second.isolate();
  expect(first.mustHandBack).toBe(true);
  first.leave();
  expect(await isolating).toBe(true);
});

test("of two suspects the second is sent elsewhere, and its place is one of those that must go", async () => {
  const { enter } = rig();
  const [first, second] = [enter(), enter()];
  const isolating = first.isolate();
  expect(await second.isolate()).toBe(false);
  second.leave();
  expect(await isolating).toBe(true);
});

test("others that do not go keep the process: the suspect gives up and leaves it to them for as long", async () => {
  const { clock, enter, doors } = rig();
  const [suspect, stayer] = [enter(), enter()];
  const isolating = suspect.isolate();
  clock.advance(ISOLATION_WAIT_MS);
  expect(await isolating).toBe(false);
  expect(doors).toEqual(["paused", "resumed"]);
  expect(stayer.mustHandBack).toBe(false);
  suspect.leave();
  stayer.leave();
  clock.advance(ISOLATION_WAIT_MS - 1);
  expect(await enter().isolate()).toBe(false);
  clock.advance(1);
  expect(clock.pending).toBe(0);
});

test("a process that stops isolates nobody, and a suspect that waits hears of it at once", async () => {
  const { clock, draining, enter } = rig();
  const [suspect, other] = [enter(), enter()];
  const isolating = suspect.isolate();
  draining.abort();
  expect(await isolating).toBe(false);
  expect(clock.pending).toBe(0);
  suspect.leave();
  expect(await other.isolate()).toBe(false);
});

test("in a process that stops already nobody waits to be alone, and the others get no notice of it", () => {
  const { clock, draining, enter, doors } = rig();
  const [suspect, other] = [enter(), enter()];
  draining.abort();
  void suspect.isolate();
  expect([other.mustHandBack, clock.pending, doors]).toEqual([false, 0, []]);
});

test("a suspect that is alone only because its process stops is not run alone", async () => {
  const { draining, enter } = rig();
  const [suspect, other] = [enter(), enter()];
  const isolating = suspect.isolate();
  draining.abort();
  other.leave();
  expect(await isolating).toBe(false);
});
