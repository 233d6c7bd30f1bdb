/** Guarantee: what a registered profile forbids stays forbidden, whatever its parent's own options forbid or allow. */
import { expect, test } from "vitest";
import { profileOf } from "../../../src/producer/inheritance.ts";

type Registered = Parameters<ReturnType<typeof profileOf>["withProfile"]>[0]["profile"];
const under = (profile: Registered, own: Omit<Parameters<typeof profileOf>[0], "parentId">) =>
  profileOf({ parentId: "p", ...own }, { limits: {} }).withProfile({ version: 3, profile });

test("tools that a parent disallows add to those of its registered profile", () => {
  const both = under({ disallowed_tools: ["bash"] }, { disallowed_tools: ["grep"] });
  expect(both.disallowed_tools).toEqual(["bash", "grep"]);
});

test("rules of a parent are one more layer behind those of its registered profile", () => {
  const [registered, own] = [{ deny: ["bash"] }, { allow: ["bash"] }];
  expect(under({ permissions: registered }, { permissions: own }).permissions).toEqual([registered, own]);
  expect(under({ permissions: registered }, {}).permissions).toEqual([registered]);
});
