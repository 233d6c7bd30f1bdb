import { expect, test } from "vitest";
import { newUid } from "../../../../src/shared/protocol/ids.ts";
import { isNewerWake, Wake } from "../../../../src/shared/protocol/worker.ts";

const wake = {
  v: 1,
  tenant: "default",
  parent_id: "planner-7",
  uid: newUid(),
  agent_id: "researcher",
  wake: 1,
};

test("a wake carries ids only: whatever else came with it is dropped", () => {
  expect(Wake.parse({ ...wake, prompt: "secret" })).toEqual(wake);
});

test.for([{ v: 2 }, { uid: "x" }, { parent_id: "a/b" }, { tenant: "" }, { wake: 0 }, { wake: 1.5 }])(
  "a wake with %j is none",
  (wrong) => {
    expect(Wake.safeParse({ ...wake, ...wrong }).success).toBe(false);
  },
);

test("a wake of a newer version is told from one that is none at all, whatever else it carries", () => {
  const newer = [{ v: 2 }, { ...wake, v: 2, shard: 1 }, { v: 7.5 }];
  const others = [wake, { v: "2" }, { v: 0 }, {}, null, 2, "v"];
  expect(newer.map(isNewerWake)).toEqual([true, true, true]);
  expect(others.map(isNewerWake)).toEqual(others.map(() => false));
});
