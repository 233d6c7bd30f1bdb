/** Guarantee: what a parent names lowers its registered profile, and what would raise it is refused or has no effect. */
import { expect, test } from "vitest";
import { inherit, profileOf } from "../../../src/producer/inheritance.ts";
import type { AgentDefinition } from "../../../src/shared/protocol/definition.ts";
import { SPAWN_LIMITS } from "../../../src/shared/protocol/limits.ts";

type Options = Omit<Parameters<typeof profileOf>[0], "parentId">;
type Registered = Parameters<ReturnType<typeof profileOf>["withProfile"]>[0]["profile"];

const nobody = { limits: {} };
const under = (profile: Registered, own: Options) =>
  profileOf({ parentId: "p", ...own }, nobody).withProfile({ version: 3, profile });
const refused = (field: string) =>
  expect.objectContaining({ code: "invalid_input", details: expect.objectContaining({ field }) });

test("of two budgets the lower cap binds, of tokens and of USD", () => {
  const registered = { parent: { max_cost_usd: 5, max_total_tokens: 100 } };
  const budgetsOf = (parent: object) => under({ budgets: registered }, { budgets: { parent } }).budgets;
  expect(budgetsOf({ max_cost_usd: 9, max_total_tokens: 50 })).toEqual({
    parent: { max_cost_usd: 5, max_total_tokens: 50 },
  });
  expect(under({ budgets: registered }, {}).budgets).toEqual(registered);
  expect(under({}, { budgets: registered }).budgets).toEqual(registered);
});

test("a lower limit holds, and those that it does not name are the registered ones", () => {
  const { limits } = under({ limits: { max_turns: 9, max_cost_usd: 5 } }, { limits: { max_turns: 4 } });
  expect(limits).toEqual({ max_turns: 4, max_cost_usd: 5 });
});

test.each([
  ["transcript_ms", 3_600_000],
  ["task_budget", 50_000],
] as const)("as much %s as registered may be named, or less, and not more", (field, most) => {
  expect(under({ [field]: most }, {})[field]).toBe(most);
  expect(under({ [field]: most }, { [field]: most - 1 })[field]).toBe(most - 1);
  expect(() => under({ [field]: most }, { [field]: most + 1 })).toThrow(refused(field));
});

/** What a spawn comes to that names `input`, under a parent with `own` and a definition with `defined`. */
function spawned(own: Options, input: Parameters<typeof inherit>[2], defined: Partial<AgentDefinition> = {}) {
  const found = { name: "finder", description: "", system: "", permissions: [], ignored: [], ...defined };
  const definitions = { list: () => ({ definitions: [found], problems: [] }), find: () => found };
  const operator = { limits: {}, definitions };
  const profile = profileOf({ parentId: "p", ...own }, operator);
  return inherit("spawn", SPAWN_LIMITS, { agent: "finder", ...input }, { profile, operator });
}

test("the limits of a profile bind each of its agents, and a spawn may not raise them", () => {
  const limits = { max_turns: 3, max_cost_usd: 1 };
  expect(spawned({ limits }, {}).limits).toMatchObject(limits);
  expect(() => spawned({ limits }, { limits: { max_cost_usd: 2 } })).toThrow(refused("limits.max_cost_usd"));
});

test("the model of a spawn comes before that of its definition, and no model falls back on itself", () => {
  const { model, rest } = spawned(
    {},
    { model: "claude-haiku-5-5", fallback_models: ["claude-haiku-5-5", "claude-opus-5"] },
    { model: "claude-opus-5" },
  );
  expect([model, rest.fallback_models]).toEqual(["claude-haiku-5-5", ["claude-opus-5"]]);
});

test("the lower effort of profile and definition bounds a spawn", () => {
  const spawn = (effort: "low" | "high") => () => spawned({ effort: "high" }, { effort }, { effort: "low" });
  expect(spawn("low")().rest.effort).toBe("low");
  expect(spawn("high")).toThrow(refused("effort"));
});
