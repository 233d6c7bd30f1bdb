/** Guarantee: no agent has skills that it cannot load, because the tool for it is disallowed: no run waits for a worker with them. */
import { expect, test } from "vitest";
import { type InheritanceInput, inherit, profileOf } from "../../../src/producer/inheritance.ts";
import type { AgentDefinition } from "../../../src/shared/protocol/definition.ts";
import { SPAWN_LIMITS } from "../../../src/shared/protocol/limits.ts";

type Options = Omit<Parameters<typeof profileOf>[0], "parentId">;

/** The skills of a spawn of a definition under a parent's options. */
function skillsOf(options: Options, defined: Partial<AgentDefinition>, input: InheritanceInput = {}) {
  const found = { name: "finder", description: "", system: "", permissions: [], ignored: [], ...defined };
  const definitions = { list: () => ({ definitions: [found], problems: [] }), find: () => found };
  const operator = { limits: {}, definitions };
  const profile = profileOf({ parentId: "p", ...options }, operator);
  return inherit("spawn", SPAWN_LIMITS, { agent: "finder", ...input }, { profile, operator }).rest.skills;
}

const refused = (field: string) =>
  expect.objectContaining({ code: "invalid_input", details: expect.objectContaining({ field }) });

test("a spawn may not name skills where the tool that loads them is disallowed, whoever disallows it", () => {
  const named = { skills: ["notes"] };
  expect(() => skillsOf({ disallowed_tools: ["Skill"] }, {}, named)).toThrow(refused("skills"));
  expect(() => skillsOf({}, { disallowed_tools: ["skill"] }, named)).toThrow(refused("skills"));
  expect(() => skillsOf({}, {}, { ...named, disallowed_tools: ["skill"] })).toThrow(refused("skills"));
  expect(skillsOf({}, {}, { ...named, disallowed_tools: ["bash"] })).toEqual(["notes"]);
});

test("inherited skills are left out there, and count as no tool", () => {
  const skills = ["notes"];
  expect(skillsOf({ skills }, {}, { disallowed_tools: ["skill"] })).toEqual([]);
  expect(skillsOf({ disallowed_tools: ["skill"] }, { skills })).toEqual([]);
  expect(skillsOf({ disallowed_tools: ["skill"] }, {})).toBeUndefined();
  const none = { tools: ["grep"], disallowed_tools: ["grep", "skill"] };
  expect(() => skillsOf({}, { ...none, skills })).toThrow(refused("disallowed_tools"));
  expect(() => profileOf({ parentId: "p", ...none, skills }, { limits: {} })).toThrow(
    refused("disallowed_tools"),
  );
});
