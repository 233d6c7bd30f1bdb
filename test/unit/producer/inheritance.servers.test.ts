/** Guarantee: a list of tools that names an MCP server may be narrowed to single tools of it, by each layer of an agent's settings. */
import { expect, test } from "vitest";
import { inherit, profileOf } from "../../../src/producer/inheritance.ts";
import { resolveTools } from "../../../src/producer/spawn.ts";
import { SPAWN_LIMITS } from "../../../src/shared/protocol/limits.ts";
import { toolsInBoth } from "../../../src/shared/protocol/permissions.ts";

const WHOLE = ["mcp__github", "grep"];
const SINGLE = ["mcp__github__list_issues"];
const refused = expect.objectContaining({ details: expect.objectContaining({ field: "tools" }) });

/** The tools of a spawn that names a definition with `defined`, and perhaps `asked`, under the parent's `own`. */
function toolsOf(own: string[] | undefined, defined: string[], asked?: string[]) {
  const found = { name: "finder", description: "", system: "", permissions: [], ignored: [], tools: defined };
  const definitions = { list: () => ({ definitions: [found], problems: [] }), find: () => found };
  const operator = { limits: {}, definitions };
  const profile = profileOf({ parentId: "p", tools: own }, operator);
  return inherit("spawn", SPAWN_LIMITS, { agent: "finder", tools: asked }, { profile, operator }).tools;
}

test("a spawn may name single tools of a server that its parent's list names, and no whole server for single tools", () => {
  const known = new Set([...WHOLE, ...SINGLE]);
  expect(resolveTools(WHOLE, SINGLE, known)).toEqual({ tools: SINGLE, unknown: [] });
  expect(() => resolveTools(SINGLE, WHOLE, known)).toThrow(refused);
  expect(() => resolveTools(["mcp__gitlab"], SINGLE, known)).toThrow(refused);
});

test("the options of a parent may do so under its registered profile", () => {
  const under = (own: string[], base: string[]) =>
    profileOf({ parentId: "p", tools: own }, { limits: {} }).withProfile({
      version: 1,
      profile: { tools: base },
    });
  expect(under(SINGLE, WHOLE).tools).toEqual(SINGLE);
  expect(() => under(WHOLE, SINGLE)).toThrow(refused);
});

test("a definition gets of a server the tools that the parent's list has, whichever of the two names the whole server", () => {
  expect(toolsOf(WHOLE, [...SINGLE, "bash"])).toEqual(SINGLE);
  expect(toolsOf(SINGLE, WHOLE)).toEqual(SINGLE);
  expect(toolsOf(undefined, WHOLE)).toEqual(WHOLE);
  expect(toolsOf(undefined, WHOLE, SINGLE)).toEqual(SINGLE);
  expect(() => toolsOf(SINGLE, WHOLE, WHOLE)).toThrow(refused);
});

test("two lists have in common what both name, and the single tools of a server that one of them names whole", () => {
  expect(toolsInBoth(SINGLE, WHOLE)).toEqual(SINGLE);
  expect(toolsInBoth([...WHOLE, "glob"], [...SINGLE, "grep"])).toEqual(["grep", ...SINGLE]);
});
