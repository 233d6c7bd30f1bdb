import { expect, test } from "vitest";
import { createValve } from "../../../src/worker/valve.ts";

test("it turns with the first reason and with the last", () => {
  const turns: string[] = [];
  const valve = createValve({ close: () => turns.push("closed"), open: () => turns.push("opened") });
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
