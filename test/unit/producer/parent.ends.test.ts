import { expect, test } from "vitest";
import { contextOf, createParent } from "../../../src/producer/parent.ts";

test("the stop of a parent ends what is under way, and a parent holds nothing of what has ended before", async () => {
  const parent = createParent({ parentId: "planner-7" });
  const { onStop } = contextOf(parent);
  const ended: string[] = [];
  onStop(() => ended.push("under way"));
  const forget = onStop(() => ended.push("over"));
  forget();
  await parent.stop();
  expect(ended).toEqual(["under way"]);
  onStop(() => ended.push("late"));
  expect(ended).toEqual(["under way", "late"]);
});
