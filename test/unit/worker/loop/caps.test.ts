import { describe, expect, test } from "vitest";
import type { Limits } from "../../../../src/shared/protocol/limits.ts";
import { FINAL_CALL_RESERVE_MS, nextAllowedCall, ordinaryTimeMs } from "../../../../src/worker/loop/caps.ts";
import { asked, type Now, rules, type Story, text } from "./story.ts";

const ordinary = { call: "ordinary" };
const finalCall = (cause: string) => ({ call: "final", cause });
const none = (cause: string) => ({ call: "none", cause });

function verdict(story: Story, limits: Partial<Limits> = {}, now: Now = {}) {
  return nextAllowedCall(story.log(now), rules(limits).limits);
}

/** `count` turns of 10 tokens and 0.25 USD each. */
function turns(count: number): Story {
  const story = asked();
  for (let i = 1; i <= count; i++) story.calls(`${i}`);
  return story;
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
