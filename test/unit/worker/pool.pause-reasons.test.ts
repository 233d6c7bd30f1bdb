import { expect, test } from "vitest";
import { createPauseReasons } from "../../../src/worker/pool.ts";
import { handClock } from "../../helpers/hand-clock.ts";

test("the first reason pauses, and without the last one consuming is resumed", () => {
  const turns: string[] = [];
  const reasons = createPauseReasons(handClock(), {
    pause: () => turns.push("paused"),
    resume: () => turns.push("resumed"),
  });
  reasons.resume("rest");
  reasons.pause("rest");
  reasons.pause("rest");
  reasons.pause("alone");
  expect(reasons.held).toEqual(["rest", "alone"]);
  reasons.resume("rest");
  reasons.resume("rest");
  expect(turns).toEqual(["paused"]);
  reasons.resume("alone");
  expect(turns).toEqual(["paused", "resumed"]);
  expect(reasons.held).toEqual([]);
});

test("paused for a while it resumes by itself, later when it was said again, and not after a stop", () => {
  const clock = handClock();
  let isPaused = false;
  const reasons = createPauseReasons(clock, {
    pause: () => {
      isPaused = true;
    },
    resume: () => {
      isPaused = false;
    },
  });
  reasons.pauseFor("rest", 1_000);
  clock.advance(600);
  reasons.pauseFor("rest", 1_000);
  clock.advance(600);
  expect(isPaused).toBe(true);
  clock.advance(400);
  expect(isPaused).toBe(false);
  reasons.pauseFor("rest", 1_000);
  reasons.stop();
  expect(clock.pending).toBe(0);
  expect(isPaused).toBe(true);
});

test("after a stop nothing is resumed, also when the last reason is taken back", () => {
  const turns: string[] = [];
  const reasons = createPauseReasons(handClock(), {
    pause: () => turns.push("paused"),
    resume: () => turns.push("resumed"),
  });
  reasons.pause("alone");
  reasons.stop();
  reasons.resume("alone");
  expect(turns).toEqual(["paused"]);
});
