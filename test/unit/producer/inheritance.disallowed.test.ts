/** Guarantee: a disallowed tool is none of an agent's, however it was named: no run waits for it, and an agent keeps one at least. */
import { expect, test } from "vitest";
import { type InheritanceInput, inherit, profileOf } from "../../../src/producer/inheritance.ts";
import { resolveTools } from "../../../src/producer/spawn.ts";
import { SPAWN_LIMITS } from "../../../src/shared/protocol/limits.ts";

const refused = expect.objectContaining({ details: expect.objectContaining({ field: "disallowed_tools" }) });

/** A spawn of a definition with `tools` by a parent that disallows `grep`. */
function spawn(tools: string[] | undefined, input: InheritanceInput = {}) {
  const found = { name: "finder", description: "", system: "", permissions: [], ignored: [], tools };
  const definitions = { list: () => ({ definitions: [found], problems: [] }), find: () => found };
  const operator = { limits: {}, definitions };
  const profile = profileOf({ parentId: "p", disallowed_tools: ["Grep"] }, operator);
  return () => inherit("spawn", SPAWN_LIMITS, { agent: "finder", ...input }, { profile, operator });
}

test("a definition or a spawn of whose tools the parent disallows every one is refused", () => {
  expect(spawn(["grep"])).toThrow(refused);
  expect(spawn(undefined, { tools: ["grep"] })).toThrow(refused);
  expect(spawn(["grep", "glob"], { disallowed_tools: ["glob"] })).toThrow(refused);
  expect(spawn(["grep", "glob"])).not.toThrow();
  expect(spawn(["grep"], { skills: ["notes"] })).not.toThrow();
  expect(spawn(undefined)).not.toThrow();
});

test("a tool that is named and disallowed is left out, so that no run waits for a worker that has it", () => {
  const known = new Set(["grep", "crm", "mcp__github", "mcp__github__get"]);
  expect(resolveTools(["grep", "crm"], undefined, known, ["crm"])).toEqual({ tools: ["grep"], unknown: [] });
  const servers = ["grep", "mcp__github__get"];
  expect(resolveTools(undefined, servers, known, ["mcp__github"]).tools).toEqual(["grep"]);
  expect(resolveTools(undefined, ["mcp__github"], known, servers).tools).toEqual(["mcp__github"]);
  expect(resolveTools(undefined, ["grep", "lsp"], known, ["lsp"]).unknown).toEqual([]);
});
