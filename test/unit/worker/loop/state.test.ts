import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { newStarted } from "../../../../src/worker/loop/log.ts";
import type { RunState } from "../../../../src/worker/loop/state.ts";
import { cases, expectSame } from "../../../helpers/cases.ts";
import { bytesOf, conversationJson, fileAll, sumsOf } from "./reference.ts";
import { asked, call, rules, Story, text } from "./story.ts";
import { again, fillingScripts, lifeFrom, liveOn, logOf, narrowScripts, scripts } from "./world.ts";

/** What the reference computes anew, as the state has it. */
function sumsIn(state: RunState) {
  const { tally, last } = state;
  const byName = (counts: ReadonlyMap<string, number>) => [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    isBegun: state.isBegun,
    userMessageNumber: state.userMessageNumber,
    isDelivered: state.isDelivered,
    paidCalls: state.paidCalls,
    turns: state.turns,
    compactions: state.compactions,
    usage: tally.usage,
    tokens: tally.tokens,
    costUsd: tally.costUsd,
    calls: byName(tally.calls),
    succeeded: byName(tally.succeeded),
    text: tally.text,
    model: tally.model,
    isOver: state.isBegun && state.repetition.isOver,
    failure: state.failure,
    finalCall: last?.finalCall,
    hasWastedTooManyCalls: state.hasWastedTooManyCalls,
    open: (last?.calls ?? []).map(({ id, isStarted: started, isAnswered: answered }) => ({
      id,
      started,
      answered,
    })),
  };
}

const anyScripts = fc.oneof(scripts, fillingScripts, narrowScripts);

/** Each situation that is counted below, whatever the random scripts are. */
const SITUATIONS = {
  repeatsOneCall: again([{}]),
  bringsNothing: again([{ inVain: 6 }]),
  saysNothing: again([{ stop: "end_turn", content: [] }]),
  isToldToFinish: again([{}], { finish: { run: 1, at: 3 } }),
  growsLong: again(
    [1, 2].map((q) => ({ content: [call("b", "look", { q })] })),
    { rules: rules({ max_turns: 8 }, { clearAtTokens: 1 }) },
  ),
  isCutOffByItsLength: again(
    [{ content: [call("b", "look")] }, { stop: "model_context_window_exceeded", content: [text("half")] }],
    { rules: rules({ max_turns: 8 }, { clearAtTokens: 1_000 }) },
  ),
  isSummedUpTwice: again(
    [1, 2, 3].map((q) => ({ content: [text("a long word ".repeat(40)), call("a", "look", { q })] })),
    { window: 2_500, rules: rules({ max_turns: 20 }) },
  ),
  isCutOffWithNothingToLeaveOut: again(
    [
      ...[1, 2, 3].map((q) => ({ content: [text("a long word ".repeat(40)), call("a", "look", { q })] })),
      { stop: "model_context_window_exceeded", content: [text("half")] },
    ],
    { rules: rules({ max_turns: 20 }) },
  ),
};

test("the state that moves on by one entry is the one computed from the whole log, at every step of every life", () => {
  const seen = {
    steps: 0,
    runs: 0,
    barren: 0,
    repeats: 0,
    nudges: 0,
    finalCalls: 0,
    unequalIds: 0,
    cleared: 0,
    goesOn: 0,
    summed: 0,
    summedAgain: 0,
    goesOnSummed: 0,
  };
  fc.assert(
    fc.property(anyScripts, (script) => {
      const life = lifeFrom([], []);
      liveOn(script, life, (held, step) => {
        const filed = fileAll(life.entries);
        const sums = JSON.stringify(sumsIn(held));
        expectSame(sums, JSON.stringify(sumsOf(filed, held.run)));
        expectSame(held.entries, life.entries.length);
        expectSame(held.logBytes, bytesOf(life.entries));
        const opened = logOf(script, life);
        expectSame(opened.logBytes, held.logBytes);
        expectSame(JSON.stringify(sumsIn(opened)), sums);
        expectSame(opened.isAfterNudge, held.isAfterNudge);
        seen.steps += 1;
        if (!held.isBegun) return;
        const finalCall = step.do === "call_model" ? step.finalCall : undefined;
        for (const cause of [finalCall, "max_cost"] as const) {
          const request = held.conversation.request(cause);
          expectSame(request.messages, conversationJson(filed, held.run, cause));
          expectSame(JSON.stringify(opened.conversation.request(cause)), JSON.stringify(request));
        }
        const sent = held.conversation.request(finalCall).messages;
        seen.barren += held.hasWastedTooManyCalls ? 1 : 0;
        seen.finalCalls += finalCall ? 1 : 0;
        seen.repeats += sent.includes("3 times in a row") ? 1 : 0;
        seen.nudges += sent.includes("Your last message was empty") ? 1 : 0;
        seen.cleared += sent.includes("Left out to make room") ? 1 : 0;
        seen.goesOn += sent.includes("Go on.") ? 1 : 0;
        seen.summed += held.compactions > 0 ? 1 : 0;
        seen.summedAgain += held.compactions > 1 ? 1 : 0;
        seen.goesOnSummed += sent.includes("Your own summary") && sent.includes("Go on.") ? 1 : 0;
        seen.unequalIds += /"a_1_\d/.test(sent) ? 1 : 0;
      });
      seen.runs += life.settled.length;
    }),
    { numRuns: cases(60), examples: Object.values(SITUATIONS).map((script) => [script]) },
  );
  for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(0);
});

test("the mark of the prompt cache stands where the call before ended", () => {
  fc.assert(
    fc.property(anyScripts, (script) => {
      let answered = { message: -1, run: 0, messages: "" };
      let sent = answered;
      liveOn(script, lifeFrom([], []), ({ conversation, run }, step) => {
        if (step.do !== "call_model") return;
        const { messages, cachedLength } = conversation.request(step.finalCall);
        expectSame(cachedLength === 0 || messages.slice(cachedLength - 3, cachedLength) === "}]}", true);
        if (sent.message !== step.message) answered = sent;
        const isSame = answered.run === run && answered.messages.length === cachedLength;
        if (isSame) expectSame(messages.slice(0, cachedLength), answered.messages);
        sent = { message: step.message, run, messages };
      });
    }),
    { numRuns: cases(100) },
  );
});

test("a log with gaps, in any order, is read as the reference reads it", () => {
  const gaps = fc.record({ script: scripts, keep: fc.array(fc.boolean(), { minLength: 1 }) });
  fc.assert(
    fc.property(gaps, ({ script, keep }) => {
      const whole = liveOn(script, lifeFrom([], []));
      const kept = whole.entries.filter((_, i) => keep[i % keep.length] ?? true);
      for (const run of [whole.settled.length, whole.settled.length + 1]) {
        const filed = fileAll(kept);
        const state = logOf(script, lifeFrom(kept, whole.settled.slice(0, run - 1)));
        expect(sumsIn(state)).toEqual(sumsOf(filed, state.run));
        if (state.isBegun) {
          const { messages } = state.conversation.request();
          expectSame(messages, conversationJson(filed, state.run));
        }
      }
    }),
    { numRuns: cases(150) },
  );
});

describe("a run's state", () => {
  test("before anything was delivered stands at the first message", () => {
    const state = new Story().log();
    expect(state).toMatchObject({ isBegun: false, paidCalls: 0, userMessageNumber: 0, isDelivered: false });
  });

  test("shows what became of the calls of the last answer", () => {
    const story = asked()
      .asks(text("a"), call("x"), text("b"), call("y"), call("z"))
      .started("x")
      .started("y")
      .result("x");
    const state = story.log();
    expect(state).toMatchObject({ isBegun: true, userMessageNumber: 2, isDelivered: false });
    expect(state.tally.text).toBe("ab");
    expect(state.last).toMatchObject({
      message: 1,
      calls: [
        { id: "x", isStarted: true, isAnswered: true },
        { id: "y", isStarted: true, isAnswered: false },
        { id: "z", isStarted: false, isAnswered: false },
      ],
    });
  });

  test("a message delivered after the last turn waits for the model", () => {
    expect(asked().calls("a").user("more").log()).toMatchObject({ userMessageNumber: 2, isDelivered: true });
  });

  test("a call that is made again has one mark: the log grows by nothing", () => {
    const state = asked().asks(call("a", "look")).started("a", "look").log();
    const { entries, logBytes } = state;
    state.fold(newStarted(1, "a", "look").entry);
    expect(state).toMatchObject({ entries, logBytes });
    expect(state.tally.toolCalls).toBe(1);
  });

  test("the turns of other runs are not this one's", () => {
    const story = asked()
      .model("end_turn", [text("one")])
      .nextRun()
      .user("next")
      .model("end_turn", [text("two")]);
    expect(story.log()).toMatchObject({ paidCalls: 1, tally: { text: "two" } });
    expect(story.nextRun().log()).toMatchObject({ isBegun: false, paidCalls: 0, userMessageNumber: 4 });
  });

  test.each<[string, Story, number]>([
    ["an answer", asked().model("end_turn", [text("one")]), 2],
    ["a message without an answer", asked(), 2],
    ["a failure", asked().failure("context_window"), 2],
    ["a failure after tool results", asked().calls("a").failure("model_error", "max_turns"), 4],
    ["a call paid for in vain after tool results", asked().calls("a").purchase(1, 0), 4],
  ])("the next run starts after %s of the last one", (_, story, userMessageNumber) => {
    expect(story.nextRun().log()).toMatchObject({ userMessageNumber, isDelivered: false });
  });

  test("a notice stays with the message that the next run begins with", () => {
    const story = asked()
      .model("end_turn", [text("one")])
      .nextRun()
      .notice("files gone");
    expect(story.log().userMessageNumber).toBe(2);
  });
});
