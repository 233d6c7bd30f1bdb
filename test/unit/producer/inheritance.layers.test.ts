/** Guarantee: which layer of an agent's settings counts where several name one, and what of the registered profile is kept. */
import { expect, test } from "vitest";
import { type InheritanceInput, inherit, profileOf } from "../../../src/producer/inheritance.ts";
import type { AgentDefinition } from "../../../src/shared/protocol/definition.ts";
import { SPAWN_LIMITS } from "../../../src/shared/protocol/limits.ts";

type Options = Omit<Parameters<typeof profileOf>[0], "parentId">;
type Registered = Parameters<ReturnType<typeof profileOf>["withProfile"]>[0]["profile"];

const under = (profile: Registered, own: Options) =>
  profileOf({ parentId: "p", ...own }, { limits: {} }).withProfile({ version: 3, profile });

test("hooks of the registered profile stay when a parent names its own, and its thresholds replace the registered ones", () => {
  const registered = { hooks: ["audit"], alerts: { turns: 9, tokens: 900 } };
  const { hooks, alerts } = under(registered, { hooks: ["notify"], alerts: { turns: 3 } });
  expect(hooks).toEqual(["audit", "notify"]);
  expect(alerts).toEqual({ turns: 3, tokens: 900 });
});

test.each(["idle_ms", "answer_within_ms"] as const)(
  "a shorter %s of a parent holds, with a registered one and without",
  (field) => {
    expect(under({ [field]: 120_000 }, { [field]: 60_000 })[field]).toBe(60_000);
    expect(under({ [field]: 120_000 }, {})[field]).toBe(120_000);
    expect(under({}, { [field]: 7_200_000 })[field]).toBe(7_200_000);
  },
);

/** What a spawn of a definition comes to under a parent's options. */
function settings(own: Options, defined: Partial<AgentDefinition>, input: InheritanceInput = {}) {
  const found = { name: "finder", description: "", system: "", permissions: [], ignored: [], ...defined };
  const definitions = { list: () => ({ definitions: [found], problems: [] }), find: () => found };
  const operator = { limits: {}, definitions };
  const profile = profileOf({ parentId: "p", ...own }, operator);
  return inherit("spawn", SPAWN_LIMITS, { agent: "finder", ...input }, { profile, operator }).rest;
}

test("system prompt and fallback models are the spawn's, else the definition's, else the profile's", () => {
  const layer = (name: string) => ({ system: `of ${name}`, fallback_models: [`claude-${name}`] });
  const own = layer("profile");
  const defined = layer("definition");
  expect(settings(own, defined, layer("spawn"))).toMatchObject(layer("spawn"));
  expect(settings(own, defined)).toMatchObject(defined);
  expect(settings(own, {})).toMatchObject(own);
});
