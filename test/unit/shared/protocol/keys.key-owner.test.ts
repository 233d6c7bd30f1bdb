import { expect, test } from "vitest";
import { installationKeysGlob, keysUnder, ownerOfKey } from "../../../../src/shared/protocol/keys.ts";

const parent = { tenant: "acme", parentId: "planner-7" };
const agent = { ...parent, uid: "sa-000000000000000000000001" };
const keys = keysUnder("saq");

test("the keys of a parent and of an agent lead back to them", () => {
  const { live, registry, replies } = keys.parent(parent);
  expect(ownerOfKey("saq", live)).toEqual({ ...parent, part: "live" });
  expect(ownerOfKey("saq", registry)).toEqual({ ...parent, part: "registry" });
  expect(ownerOfKey("saq", replies)).toEqual({ ...parent, part: "replies" });
  const { record, log, inbox, life, timeline } = keys.agent(agent);
  for (const [part, key] of Object.entries({ record, log, inbox, life, timeline })) {
    expect(ownerOfKey("saq", key)).toEqual({ ...agent, part });
  }
});

test("keys that hold no part of an agent, and foreign ones, lead nowhere", () => {
  const ofParent = keys.parent(parent);
  const others = [
    ...[ofParent.request("r"), ofParent.ack("x"), ofParent.text("x"), ofParent.usage],
    keys.agent(agent).message("m:log"),
  ];
  for (const key of [
    ...others,
    keys.deadlines,
    keys.worker("w"),
    "saq:{a}:live",
    "saq2:{a/b}:live",
    "live",
  ]) {
    expect(ownerOfKey("saq", key), key).toBeUndefined();
  }
  expect(ownerOfKey("saq2", keys.parent(parent).live)).toBeUndefined();
});

test("the glob of an installation matches the keys of its parents and those that it shares, and no longer prefix", () => {
  const glob = new RegExp(`^${installationKeysGlob("saq").replaceAll("*", ".*")}$`, "s");
  const { live } = keys.parent(parent);
  for (const key of [live, keys.agent(agent).log, keys.deadlines, keys.worker("w"), keys.wakeJob("x.1")])
    expect(key, key).toMatch(glob);
  for (const key of ["saq2:{a/b}:live", "{saq2}:deadlines", "saq"]) expect(key, key).not.toMatch(glob);
});
