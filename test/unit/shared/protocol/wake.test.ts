import { expect, test } from "vitest";
import { newUid } from "../../../../src/shared/protocol/ids.ts";
import { Wake } from "../../../../src/shared/protocol/wake.ts";

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
