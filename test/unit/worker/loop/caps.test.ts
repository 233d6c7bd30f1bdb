import { describe, expect, test } from "vitest";
import type { Limits } from "../../../../src/shared/protocol/limits.ts";
import {
  FINAL_CALL_RESERVE_MS,
  fittingStep,
  nextAllowedCall,
  ordinaryTimeMs,
} from "../../../../src/worker/loop/caps.ts";
import type { RunRules } from "../../../../src/worker/loop/rules.ts";
import { asked, call, type Now, rules, type Story, text, used } from "./story.ts";

const ordinary = { call: "ordinary" };
const finalCall = (cause: string) => ({ call: "final", cause });
const none = (cause: string) => ({ call: "none", cause });

function verdict(story: Story, limits: Partial<Limits> = {}, now: Now = {}) {
  return nextAllowedCall(story.log(now), rules(limits));
}

/** `count` turns of 10 tokens and 0.25 USD each, with an empty result. */
function turns(count: number): Story {
  const story = asked();
  for (let i = 1; i <= count; i++) story.asks(call(`${i}`)).started(`${i}`);
  return story;
}

/** A turn of 1,000 tokens and 0.25 USD, with a result of so many tokens. */
function grown(tokens: number): Story {
  return asked()
    .model("tool_use", [call("1")], { usage: used(1_000) })
    .started("1")
    .result("1", "r".repeat(4 * tokens));
}

describe("turns", () => {
  test("the last one hands back, after it there is none", () => {
    expect(verdict(turns(3), { max_turns: 5 })).toEqual(ordinary);
    expect(verdict(turns(4), { max_turns: 5 })).toEqual(finalCall("max_turns"));
    expect(verdict(turns(5), { max_turns: 5 })).toEqual(none("max_turns"));
  });

  test("a cap of one is one call without tools", () => {
    expect(verdict(asked(), { max_turns: 1 })).toEqual(finalCall("max_turns"));
  });
});

describe("tokens and cost", () => {
  test("hand back while the price of one more call is left, at the last call's price", () => {
    expect(verdict(turns(2), { max_total_tokens: 40 })).toEqual(ordinary);
    expect(verdict(turns(2), { max_total_tokens: 39 })).toEqual(finalCall("max_total_tokens"));
    expect(verdict(turns(2), { max_cost_usd: 1 })).toEqual(ordinary);
    expect(verdict(turns(2), { max_cost_usd: 0.99 })).toEqual(finalCall("max_cost"));
  });

  test("count what the results since have added to the next call, and to the final one", () => {
    const promptUsd = 0.001;
    expect(verdict(grown(2_000), { max_total_tokens: 7_200 })).toEqual(ordinary);
    expect(verdict(grown(2_000), { max_total_tokens: 6_900 })).toEqual(finalCall("max_total_tokens"));
    const priced = (max_cost_usd: number) =>
      nextAllowedCall(grown(2_000).log(), rules({ max_cost_usd }, { promptUsd }));
    // 0.25 are spent, and each of two calls costs 0.25 and 2 for the result.
    expect(priced(4.9)).toEqual(ordinary);
    expect(priced(4.7)).toEqual(finalCall("max_cost"));
  });

  test("do not count what is omitted from the next call", () => {
    const second = () =>
      grown(2_000)
        .model("tool_use", [call("2")], { usage: used(3_000) })
        .started("2");
    expect(verdict(second(), { max_total_tokens: 6_500 })).toEqual(finalCall("max_total_tokens"));
    expect(verdict(second().cleared(1), { max_total_tokens: 6_500 })).toEqual(ordinary);
  });

  test("keep the results for a report that would pass the cap by less than the last call, or with them omitted as well", () => {
    const through = (story: Story, max_total_tokens: number) =>
      fittingStep(story.log(), rules({ max_total_tokens }))?.cleared.through;
    expect(through(grown(900), 2_500)).toBeUndefined();
    const old = grown(2_000);
    for (const id of ["2", "3", "4"]) {
      old.model("tool_use", [call(id)], { usage: used(4_000) });
      old.started(id);
    }
    expect(through(old, 17_500)).toBeUndefined();
    expect(through(old, 16_000)).toBe(3);
    expect(through(old, 14_500)).toBeUndefined();
  });

  test("omit the last results where they more than double a call that does not fit", () => {
    const fitting = (story: Story, limits: Partial<Limits>, more: Partial<RunRules> = {}, now: Now = {}) =>
      fittingStep(story.log(now), rules(limits, more))?.cleared.through;
    expect(fitting(grown(2_000), { max_total_tokens: 4_200 })).toBeUndefined();
    expect(fitting(grown(2_000), { max_total_tokens: 3_900 })).toBe(1);
    expect(fitting(grown(2_000), { max_cost_usd: 2.6 }, { promptUsd: 0.001 })).toBeUndefined();
    expect(fitting(grown(2_000), { max_cost_usd: 2.4 }, { promptUsd: 0.001 })).toBe(1);
    expect(fitting(grown(2_000).cleared(1), { max_total_tokens: 1_900 })).toBeUndefined();
    // A spent budget leaves a final call that is no more than twice the last one.
    const overBudget = { cap: "max_cost" } as const;
    expect(fitting(grown(900), {}, {}, { overBudget })).toBeUndefined();
    expect(fitting(grown(1_100), {}, {}, { overBudget })).toBe(1);
    // The first call of the next run brings the whole conversation along.
    const later = grown(2_000)
      .model("end_turn", [text("done")])
      .nextRun()
      .user("next");
    expect(fitting(later, { max_total_tokens: 2_500 })).toBeUndefined();
    expect(fitting(later, { max_total_tokens: 1_900 })).toBe(1);
  });

  test("that are used up buy nothing more", () => {
    expect(verdict(turns(2), { max_total_tokens: 21 })).toEqual(finalCall("max_total_tokens"));
    expect(verdict(turns(2), { max_total_tokens: 20 })).toEqual(none("max_total_tokens"));
    expect(verdict(turns(2), { max_cost_usd: 0.5 })).toEqual(none("max_cost"));
  });

  test("count what was paid for in vain", () => {
    expect(verdict(asked().purchase(10, 0), { max_total_tokens: 10 })).toEqual(none("max_total_tokens"));
    expect(verdict(asked().purchase(0, 0.5).purchase(0, 0.5, 1), { max_cost_usd: 1 })).toEqual(
      none("max_cost"),
    );
  });

  test("do not stop the first call, whose price nobody knows", () => {
    expect(verdict(asked(), { max_total_tokens: 1, max_cost_usd: 0.000_1 })).toEqual(ordinary);
  });

  test("of an earlier run are not this run's", () => {
    const story = turns(2).purchase(100, 100).nextRun(6).user("next");
    expect(verdict(story, { max_total_tokens: 20, max_cost_usd: 0.5 })).toEqual(ordinary);
  });

  test("without a cap never stop a run", () => {
    expect(verdict(asked().purchase(1e9, 1e6))).toEqual(ordinary);
  });
});

describe("duration", () => {
  test("hands back a minute early, and at the cap there is no call", () => {
    const limits = { max_duration_ms: 600_000 };
    expect(verdict(asked(), limits, { elapsedMs: 539_999 })).toEqual(ordinary);
    expect(verdict(asked(), limits, { elapsedMs: 540_000 })).toEqual(finalCall("max_duration"));
    expect(verdict(asked(), limits, { elapsedMs: 600_000 })).toEqual(none("max_duration"));
  });

  test("keeps half of a short run for the final call", () => {
    const limits = (max_duration_ms: number) => rules({ max_duration_ms }).limits;
    expect(ordinaryTimeMs(limits(2 * FINAL_CALL_RESERVE_MS))).toBe(FINAL_CALL_RESERVE_MS);
    expect(ordinaryTimeMs(limits(1_000))).toBe(500);
    expect(ordinaryTimeMs(limits(1_800_000))).toBe(1_740_000);
  });
});

describe("other causes", () => {
  test("finish makes the next call the last one", () => {
    expect(verdict(turns(1), {}, { finish: true })).toEqual(finalCall("finished_by_parent"));
    expect(verdict(turns(3), {}, { finish: true })).toEqual(finalCall("finished_by_parent"));
  });

  test("finish buys nothing for a run without an answer, not even its only call", () => {
    const finish = true;
    expect(verdict(asked(), {}, { finish })).toEqual(none("finished_by_parent"));
    expect(verdict(asked(), { max_turns: 1 }, { finish })).toEqual(none("finished_by_parent"));
    expect(verdict(asked().broken(10, 0), {}, { finish })).toEqual(none("finished_by_parent"));
    expect(verdict(turns(2).nextRun(6).user("next"), {}, { finish })).toEqual(none("finished_by_parent"));
    expect(verdict(asked(), {}, { finish, overBudget: { cap: "max_cost" } })).toEqual(
      none("finished_by_parent"),
    );
  });

  test("finish is the cause before any cap that has not been passed", () => {
    const limits = { max_turns: 3, max_total_tokens: 21 };
    expect(verdict(turns(2), limits, { finish: true })).toEqual(finalCall("finished_by_parent"));
    expect(verdict(turns(3), limits, { finish: true })).toEqual(none("max_turns"));
  });

  test("a loop is the cause before a cap", () => {
    const story = asked();
    for (const id of ["1", "2", "3", "4", "5"]) story.calls(id, "look", {});
    expect(verdict(story, { max_turns: 6 })).toEqual(finalCall("loop_detected"));
  });

  test("text that says so is no cause", () => {
    const story = asked().model("end_turn", [text("max_turns loop_detected finished_by_parent")]);
    expect(verdict(story)).toEqual(ordinary);
  });
});
