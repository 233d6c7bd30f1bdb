import { describe, expect, test } from "vitest";
import { baseLimits, narrowed, profileOf } from "../../../src/producer/inheritance.ts";
import { SPAWN_LIMITS, TASK_LIMITS } from "../../../src/shared/protocol/limits.ts";

const nobody = { limits: {} };

describe("a profile", () => {
  test("has the defaults of the specification", () => {
    expect(profileOf({ parentId: "planner-7" }, nobody)).toEqual({
      parent: { tenant: "default", parentId: "planner-7" },
      limits: {},
      permissions: [],
      alerts: {},
      keep_alive: false,
      idle_ms: 600_000,
      answer_within_ms: 3_600_000,
      own: {},
      withProfile: expect.any(Function),
    });
  });

  test("has no model unless it names one: the operator's is asked for at each spawn", () => {
    const operator = { model: "offline-1", limits: {} };
    expect(profileOf({ parentId: "p" }, operator).model).toBeUndefined();
    expect(profileOf({ parentId: "p", model: "claude-haiku-5-5" }, operator).model).toBe("claude-haiku-5-5");
  });

  test.for(["", "-x", "a/b", "a b", "x".repeat(65), "ü"])("refuses the parent id %j", (parentId) => {
    expect(() => profileOf({ parentId }, nobody)).toThrow(
      expect.objectContaining({ code: "invalid_input", message: expect.stringMatching(/parentId/) }),
    );
  });

  test.for(["sa-0123456789abcdef01234567", " SA-0123456789ABCDEF01234567 "])(
    "refuses %j, a sub-agent's uid, as nesting",
    (parentId) => {
      expect(() => profileOf({ parentId }, nobody)).toThrow(
        expect.objectContaining({ code: "nested_spawn" }),
      );
    },
  );

  test("may not disallow every tool that it names", () => {
    const profile = (more: object) => () => profileOf({ parentId: "p", ...more }, nobody);
    for (const [tools, disallowed_tools] of [
      [["Read"], ["read_file"]],
      [
        ["mcp__github__list", "grep"],
        ["mcp__github", "Grep", "Bash"],
      ],
    ])
      expect(profile({ tools, disallowed_tools })).toThrow(
        expect.objectContaining({
          code: "invalid_input",
          message: expect.stringMatching(
            /^createParent refused, nothing was done: disallowed_tools has every one/,
          ),
          details: expect.objectContaining({ field: "disallowed_tools" }),
        }),
      );
    expect(profile({ tools: ["Read", "Grep"], disallowed_tools: ["Read"] })).not.toThrow();
    expect(profile({ tools: ["Read"], disallowed_tools: ["Read"], skills: ["notes"] })).not.toThrow();
    expect(profile({ tools: [], disallowed_tools: ["Read"] })).not.toThrow();
  });

  test("under a registered one may not leave it without a tool", () => {
    const own = profileOf({ parentId: "p", disallowed_tools: ["Read"] }, nobody);
    expect(() => own.withProfile({ version: 1, profile: { tools: ["read_file"] } })).toThrow(
      /under version 1 of the registered profile\) refused/,
    );
  });

  test("may not ask for more than the operator allows a task", () => {
    const refused = {
      code: "invalid_input",
      details: { field: "limits.max_turns", requested: 13, allowed: 12 },
    };
    expect(() =>
      profileOf({ parentId: "p", limits: { max_turns: 13 } }, { limits: { max_turns: 12 } }),
    ).toThrow(expect.objectContaining(refused));
  });

  test("refuses a blank system prompt, unknown settings and times out of range", () => {
    const times = [
      { idle_ms: 0 },
      { idle_ms: 86_400_001 },
      { answer_within_ms: 0 },
      { answer_within_ms: 86_400_001 },
    ];
    for (const wrong of [{ system: " " }, { colour: "red" }, ...times]) {
      expect(() => profileOf({ parentId: "p", ...wrong }, nobody)).toThrow(
        expect.objectContaining({ code: "invalid_input" }),
      );
    }
  });
});

describe("the limits of a spawn", () => {
  test("are the kind's, as the operator set them, capped by the profile", () => {
    expect(baseLimits(SPAWN_LIMITS, nobody, {})).toEqual(SPAWN_LIMITS);
    expect(baseLimits(SPAWN_LIMITS, { limits: { max_turns: 30 } }, {}).max_turns).toBe(30);
    expect(baseLimits(TASK_LIMITS, nobody, { max_turns: 25 }).max_turns).toBe(25);
    expect(baseLimits(SPAWN_LIMITS, nobody, { max_turns: 25 }).max_turns).toBe(20);
    expect(baseLimits(SPAWN_LIMITS, nobody, { max_cost_usd: 2 }).max_cost_usd).toBe(2);
    expect(baseLimits(SPAWN_LIMITS, { limits: { max_cost_usd: 1 } }, { max_cost_usd: 2 }).max_cost_usd).toBe(
      1,
    );
  });

  test("narrow by a wish and refuse a wider one by name", () => {
    expect(narrowed(SPAWN_LIMITS, { max_turns: 1, max_cost_usd: 0.5 }, "spawn")).toEqual({
      ...SPAWN_LIMITS,
      max_turns: 1,
      max_cost_usd: 0.5,
    });
    expect(() => narrowed(SPAWN_LIMITS, { max_tokens: 8_001 }, "spawn")).toThrow(
      expect.objectContaining({ details: { field: "limits.max_tokens", requested: 8_001, allowed: 8_000 } }),
    );
  });
});
