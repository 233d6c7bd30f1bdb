import { describe, expect, test } from "vitest";
import { profileOf } from "../../../src/producer/inheritance.ts";
import { UNREGISTERED } from "../../../src/producer/input.ts";
import { resolveTools } from "../../../src/producer/spawn.ts";
import { checkSpawn } from "../../../src/producer/spawn-input.ts";

const operator = { model: "offline-1", limits: {} };
const context = (profile: Parameters<typeof profileOf>[0] = { parentId: "p" }) => ({
  profile: profileOf(profile, operator),
  operator,
});
const prepareSpawn = (...call: Parameters<typeof checkSpawn>) =>
  checkSpawn(...call).withProfile(UNREGISTERED);
const known = new Set(["read_file", "grep", "bash"]);

describe("a prepared spawn", () => {
  test("inherits from the profile what it does not say itself", () => {
    const inherited = {
      parentId: "p",
      system: "Be brief.",
      keep_alive: true,
      idle_ms: 5_000,
      alerts: { turns: 3 },
    };
    expect(prepareSpawn("spawn", { name: "A" }, context(inherited)).spec).toEqual({
      v: 1,
      model: "offline-1",
      system: "Be brief.",
      limits: { max_turns: 20, max_tokens: 8_000, max_duration_ms: 1_800_000 },
      alerts: { turns: 3 },
      keep_alive: true,
      idle_ms: 5_000,
      answer_ms: 3_600_000,
    });
    const own = {
      name: "A",
      system: "Be long.",
      keep_alive: false,
      idle_ms: 1,
      alerts: { tokens: 9 },
      description: "",
      model: "claude-haiku-5-5",
    };
    expect(prepareSpawn("spawn", own, context(inherited)).spec).toMatchObject({
      model: "claude-haiku-5-5",
      system: "Be long.",
      description: "",
      alerts: { turns: 3, tokens: 9 },
      keep_alive: false,
      idle_ms: 1,
    });
  });

  test("of a task is never kept alive, has a name by default and carries the prompt", () => {
    const prepared = prepareSpawn("task", { prompt: "go" }, context({ parentId: "p", keep_alive: true }));
    expect(prepared).toMatchObject({ name: "task", stem: "task", prompt: "go", spec: { keep_alive: false } });
    expect(prepared.spec.limits.max_turns).toBe(30);
  });

  test("may ask its parent within the time that the parent has set, or a shorter one; a task only where somebody answers", () => {
    const answerMs = (kind: "spawn" | "task", input: object, answersTask = false) =>
      prepareSpawn(kind, input, context({ parentId: "p", answer_within_ms: 500 }), { answersTask }).spec
        .answer_ms;
    expect(answerMs("spawn", { name: "A" })).toBe(500);
    expect(answerMs("spawn", { name: "A", answer_within_ms: 9 })).toBe(9);
    expect(() => answerMs("spawn", { name: "A", answer_within_ms: 501 })).toThrow(
      expect.objectContaining({ details: { field: "answer_within_ms", requested: 501, allowed: 500 } }),
    );
    expect(answerMs("task", { prompt: "go" })).toBeUndefined();
    expect(answerMs("task", { prompt: "go" }, true)).toBe(500);
  });

  test("has a digest of what the caller asked for, without the request key", () => {
    const digest = (input: unknown, kind: "spawn" | "task" = "spawn") =>
      prepareSpawn(kind, input, context()).digest;
    const one = digest({ name: "A", limits: { max_turns: 1, max_tokens: 2 }, request_key: "k" });
    expect(digest({ limits: { max_tokens: 2, max_turns: 1 }, name: "A" })).toBe(one);
    expect(digest({ name: "A" })).not.toBe(one);
    expect(digest({ prompt: "a" }, "task")).not.toBe(digest({ prompt: "b" }, "task"));
  });

  test("gets a request key of its own when the caller gives none", () => {
    const keys = [1, 2].map(() => prepareSpawn("spawn", { name: "A" }, context()).requestKey);
    expect(new Set(keys).size).toBe(2);
    expect(prepareSpawn("spawn", { name: "A", request_key: "mine" }, context()).requestKey).toBe("mine");
  });

  test("with an operator's cost cap needs a price as well", () => {
    const capped = { ...context(), operator: { model: "offline-1", limits: { max_cost_usd: 1 } } };
    expect(() => prepareSpawn("spawn", { name: "A", model: "unheard-of" }, capped)).toThrow(
      expect.objectContaining({ code: "unknown_price", details: { model: "unheard-of" } }),
    );
    expect(prepareSpawn("spawn", { name: "A" }, capped).spec.limits.max_cost_usd).toBe(1);
  });
});

describe("the tools of a spawn", () => {
  test("are all of the worker's when neither parent nor spawn names any", () => {
    expect(resolveTools(undefined, undefined, known)).toEqual({ tools: undefined, unknown: [] });
  });

  test("are the parent's when the spawn names none, unknown ones reported", () => {
    expect(resolveTools(["grep", "crm"], undefined, known)).toEqual({
      tools: ["grep", "crm"],
      unknown: ["crm"],
    });
  });

  test("are exactly those named, also none at all", () => {
    expect(resolveTools(undefined, ["bash", "crm"], known)).toEqual({
      tools: ["bash", "crm"],
      unknown: ["crm"],
    });
    expect(resolveTools(["grep"], [], known)).toEqual({ tools: [], unknown: [] });
  });

  test("never go beyond the parent's: known ones are refused, unknown ones dropped and reported", () => {
    expect(() => resolveTools(["grep"], ["grep", "bash"], known)).toThrow(
      expect.objectContaining({ details: { field: "tools", requested: ["bash"], allowed: ["grep"] } }),
    );
    expect(resolveTools(["grep"], ["grep", "crm"], known)).toEqual({ tools: ["grep"], unknown: ["crm"] });
  });
});
