import { expect, test } from "vitest";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";

test("no channel of one database reaches another, whose installation may have the same prefix", () => {
  const channelsOf = (database: number) => {
    const keys = keysUnder("saq", database);
    const { doorbell, events } = keys.parent({ tenant: "default", parentId: "planner-7" });
    return [keys.hints, keys.webhookDoorbell, doorbell, events];
  };
  const all = [0, 1, 12].flatMap(channelsOf);
  expect(new Set(all).size).toBe(all.length);
});
