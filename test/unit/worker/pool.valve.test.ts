import { expect, test } from "vitest";
import { createValve } from "../../../src/worker/pool.ts";
import { handClock } from "../../helpers/hand-clock.ts";

test("it turns with the first reason and with the last", () => {
  const turns: string[] = [];
  const valve = createValve(handClock(), {
    close: () => turns.push("closed"),
    open: () => turns.push("opened"),
  });
  valve.open("rest");
  valve.close("rest");
  valve.close("rest");
  valve.close("alone");
  expect(valve.closedBy).toEqual(["rest", "alone"]);
  valve.open("rest");
  valve.open("rest");
  expect(turns).toEqual(["closed"]);
  valve.open("alone");
  expect(turns).toEqual(["closed", "opened"]);
  expect(valve.closedBy).toEqual([]);
});

test("closed for a while it opens by itself, later when it was said again, and not after a stop", () => {
  const clock = handClock();
  let open = true;
  const valve = createValve(clock, {
    close: () => {
      open = false;
    },
    open: () => {
      open = true;
    },
  });
  valve.closeFor("rest", 1_000);
  clock.advance(600);
  valve.closeFor("rest", 1_000);
  clock.advance(600);
  expect(open).toBe(false);
  clock.advance(400);
  expect(open).toBe(true);
  valve.closeFor("rest", 1_000);
  valve.stop();
  expect(clock.pending).toBe(0);
  expect(open).toBe(false);
});
