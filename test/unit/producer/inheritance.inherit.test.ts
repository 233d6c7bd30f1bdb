/** Guarantee: each layer of an agent's settings only narrows those before it, whichever layer that is. */
import { expect, test } from "vitest";
import { type InheritanceInput, inherit, profileOf } from "../../../src/producer/inheritance.ts";
import type { AgentDefinition } from "../../../src/shared/protocol/definition.ts";
import { SPAWN_LIMITS } from "../../../src/shared/protocol/limits.ts";

type Options = Omit<Parameters<typeof profileOf>[0], "parentId">;

/** What a spawn of a definition comes to under a parent's options. */
function settings(options: Options, defined: Partial<AgentDefinition> = {}, input: InheritanceInput = {}) {
  const found = { name: "finder", description: "", system: "", permissions: [], ignored: [], ...defined };
  const definitions = { list: () => ({ definitions: [found], problems: [] }), find: () => found };
  const operator = { limits: {}, definitions };
  const profile = profileOf({ parentId: "p", ...options }, operator);
  return inherit("spawn", SPAWN_LIMITS, { agent: "finder", ...input }, { profile, operator });
}

const refused = (field: string) =>
  expect.objectContaining({ code: "invalid_input", details: expect.objectContaining({ field }) });

test("prohibitions, hooks and rules of every layer add up", () => {
  const layer = (name: string) => ({
    disallowed_tools: [`mcp__${name}`],
    hooks: [name],
  });
  const rules = ["bash", "grep", "glob"].map((tool) => ({ deny: [tool] }));
  const [ofProfile = {}, ofDefinition = {}, ofSpawn = {}] = rules;
  const { rest } = settings(
    { ...layer("profile"), permissions: ofProfile },
    { ...layer("definition"), permissions: [ofDefinition] },
    { ...layer("spawn"), permissions: ofSpawn },
  );
  expect(rest.disallowed_tools).toEqual(["mcp__profile", "mcp__definition", "mcp__spawn"]);
  expect(rest.hooks).toEqual(["profile", "definition", "spawn"]);
  expect(rest.permissions).toEqual(rules);
});

test("a spawn gets of a definition's tools and skills what its parent has too, and may name no other", () => {
  const own = { tools: ["grep", "glob"], skills: ["notes", "plans"] };
  const wider = { tools: ["grep", "bash"], skills: ["notes", "secrets"] };
  const { tools, rest } = settings(own, wider);
  expect([tools, rest.skills]).toEqual([["grep"], ["notes"]]);
  for (const name of ["bash", "glob"])
    expect(() => settings(own, wider, { tools: [name] }), name).toThrow(refused("tools"));
  for (const name of ["secrets", "plans"])
    expect(() => settings(own, wider, { skills: [name] }), name).toThrow(refused("skills"));
});

test("the least of profile and definition bounds a spawn, which may have all of it", () => {
  const own = { task_budget: 50_000, transcript_ms: 60_000 };
  for (const task_budget of [30_000, 90_000]) {
    const most = Math.min(own.task_budget, task_budget);
    expect(settings(own, { task_budget }).rest.task_budget).toBe(most);
    expect(settings(own, { task_budget }, { task_budget: most }).rest.task_budget).toBe(most);
    expect(() => settings(own, { task_budget }, { task_budget: most + 1 })).toThrow(refused("task_budget"));
  }
  expect(settings(own, {}, { transcript_ms: 60_000 }).rest.transcript_ms).toBe(60_000);
  expect(() => settings(own, {}, { transcript_ms: 60_001 })).toThrow(refused("transcript_ms"));
});

test("options may not keep an agent or a question longer than the registered profile, of whatever version", () => {
  const own = profileOf({ parentId: "p", idle_ms: 120_000, answer_within_ms: 120_000 }, { limits: {} });
  for (const field of ["idle_ms", "answer_within_ms"]) {
    const under = (most: number) => () => own.withProfile({ version: 3, profile: { [field]: most } });
    expect(under(119_999)).toThrow(refused(field));
    expect(under(120_000)()).toMatchObject({ [field]: 120_000, version: 3 });
  }
});
