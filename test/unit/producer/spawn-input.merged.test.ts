/** Guarantee: what a spawn comes to where parent and spawn both say something, and what a cap in USD asks of its models. */
import { expect, test } from "vitest";
import { profileOf } from "../../../src/producer/inheritance.ts";
import { UNREGISTERED } from "../../../src/producer/input.ts";
import { checkSpawn } from "../../../src/producer/spawn-input.ts";
import { SubagentError } from "../../../src/shared/errors.ts";

type Options = Omit<Parameters<typeof profileOf>[0], "parentId">;

const context = (options: Options = {}, model?: string) => {
  const operator = { limits: {}, ...(model !== undefined && { model }) };
  return { profile: profileOf({ parentId: "p", ...options }, operator), operator };
};

const prepareSpawn = (...call: Parameters<typeof checkSpawn>) =>
  checkSpawn(...call).withProfile(UNREGISTERED);

test("with a cap in USD each fallback model needs a price, too", () => {
  const input = { name: "A", limits: { max_cost_usd: 1 }, fallback_models: ["claude-opus-5", "unheard-of"] };
  const spawn = (input: object) => () => prepareSpawn("spawn", input, context({}, "offline-1"));
  expect(spawn(input)).toThrow(
    expect.objectContaining({ code: "unknown_price", details: { model: "unheard-of" } }),
  );
  expect(spawn({ ...input, limits: {} })).not.toThrow();
});

test("a threshold of a spawn replaces that of its parent", () => {
  const alerts = { turns: 9, tokens: 900 };
  const { spec } = prepareSpawn(
    "spawn",
    { name: "A", alerts: { turns: 3 } },
    context({ alerts }, "offline-1"),
  );
  expect(spec.alerts).toEqual({ turns: 3, tokens: 900 });
});

test.each([
  ["keep", undefined],
  ["finish", "finish"],
  ["destroy", "destroy"],
] as const)("a lease that says %s has its agents follow it so", (onParentGone, followed) => {
  const lease = { ms: 60_000, onParentGone };
  expect(prepareSpawn("spawn", { name: "A" }, context({ lease }, "offline-1")).onParentGone).toBe(followed);
});

test("a spawn that names no model waits for the registered profile, and is refused where that names none", () => {
  const checked = checkSpawn("spawn", { name: "A" }, context());
  expect(checked.withProfile({ version: 1, profile: { model: "offline-1" } }).spec.model).toBe("offline-1");
  expect(() => checked.withProfile({ version: 0, profile: {} })).toThrow(SubagentError);
  expect(() => checkSpawn("spawn", { name: "A", idle_ms: 2 }, context({ idle_ms: 1 }))).toThrow(
    expect.objectContaining({ details: expect.objectContaining({ field: "idle_ms" }) }),
  );
});
