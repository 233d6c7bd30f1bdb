import { describe, expect, test } from "vitest";
import type { Limits } from "../../../../src/shared/protocol/limits.ts";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import type { CapReason, StopReason } from "../../../../src/shared/protocol/reply.ts";
import { newCleared } from "../../../../src/worker/loop/log.ts";
import { next } from "../../../../src/worker/loop/next.ts";
import type { RunState } from "../../../../src/worker/loop/state.ts";
import { asked, call, message, type Now, rules, Story, text } from "./story.ts";

const ends = (reason: StopReason, natural = false) => ({ do: "settle", reason, natural });

describe("the provider's stop reasons", () => {
  test.each(["end_turn", "stop_sequence"])("%s with text is the run's natural end", (stop) => {
    expect(
      next(
        asked()
          .model(stop, [text("done")])
          .log(),
        rules(),
      ),
    ).toEqual(ends("end_turn", true));
  });

  test.each<[string, StopReason]>([
    ["max_tokens", "max_tokens"],
    ["refusal", "refusal"],
    ["model_context_window_exceeded", "context_window"],
    ["something_new", "model_error"],
    ["", "model_error"],
    ["END_TURN", "model_error"],
  ])("%j ends the run as %s, and a call in it is never made", (stop, reason) => {
    expect(
      next(
        asked()
          .model(stop, [text("so far")])
          .log(),
        rules(),
      ),
    ).toEqual(ends(reason));
    expect(
      next(
        asked()
          .model(stop, [text("so far"), call("a")])
          .log(),
        rules(),
      ),
    ).toEqual(ends(reason));
  });

  test("tool_use runs every call of the message", () => {
    const step = next(asked().asks(call("a", "look"), text("and"), call("b")).log(), rules());
    expect(step).toEqual({
      do: "run_tools",
      message: 1,
      turn: 1,
      calls: [
        { id: "a", name: "look", input: { id: "a" }, how: "run" },
        { id: "b", name: "write", input: { id: "b" }, how: "run" },
      ],
    });
  });

  test("tool_use of many calls judges them with the work of a few: what is left over is refused", () => {
    const file_path = "a".repeat(4_000);
    const calls = Array.from({ length: 64 }, (_, i) => call(`c${i}`, "read_file", { file_path, limit: i }));
    const deny = Array.from({ length: 24 }, (_, i) => `read_file(**/*a${i}b)`);
    const log = asked()
      .asks(...calls)
      .log();
    const step = next(log, rules({}, { permissions: [{ deny }] }));
    const how = step.do === "run_tools" ? step.calls.map((planned) => planned.how) : [];
    // Each takes nearly a half of what one call may take.
    expect(how).toEqual([...Array(8).fill("run"), ...Array(56).fill("denied")]);
  });

  test("tool_use without a tool block fails closed", () => {
    expect(next(asked().asks(text("I will look")).log(), rules())).toEqual(ends("model_error"));
  });

  test("an end_turn that holds a call ends the run without making it", () => {
    const log = asked()
      .model("end_turn", [text("done"), call("a")])
      .log();
    expect(next(log, rules())).toEqual(ends("end_turn", true));
  });

  test("pause_turn is called again, each time as a turn, until the last turn hands back", () => {
    const story = asked();
    for (let turn = 1; turn <= 5; turn++) {
      expect(next(story.log(), rules({ max_turns: 6 }))).toEqual({
        do: "call_model",
        message: story.n + 1,
        turn,
      });
      story.model("pause_turn", [{ type: "server_tool_use", id: `s${turn}` }]);
    }
    const last = { do: "call_model", message: 11, turn: 6, finalCall: "max_turns" };
    expect(next(story.log(), rules({ max_turns: 6 }))).toEqual(last);
    story.model("pause_turn", [], { hand_back: "max_turns" });
    expect(next(story.log(), rules({ max_turns: 6 }))).toEqual(ends("max_turns"));
  });
});

describe("a budget that is spent", () => {
  const shaped = rules({}, { outputSchema: {}, clearAtTokens: 1 });
  const unfit = asked().model("end_turn", [text("no")]);
  unfit.add(entryKey.verdict(1), { fits: false, problem: "no object" });
  const long = asked();
  for (let k = 0; k < 8; k++) long.calls(`c${k}`, "look");
  const stories: [string, RunState][] = [
    ["nothing was bought", asked().log()],
    ["an answer was bought in vain", asked().broken(1, 1).log()],
    ["results are there", asked().calls("a").log()],
    ["the answer was paused", asked().model("pause_turn").log()],
    ["the answer was empty", asked().model("end_turn").log()],
    ["the output does not fit", unfit.log()],
    [
      "the parent has said more",
      asked()
        .calls("a")
        .log({ unread: [message("And?")] }),
    ],
    ["the request was too long", Object.assign(long.log(), { tooLongAtMessage: long.n })],
    [
      "the answer was cut off",
      asked()
        .model("model_context_window_exceeded", [text("so")])
        .log(),
    ],
  ];

  test.each(stories)("refuses every call but the final one, so no other is planned where %s", (_, state) => {
    for (let step = 0; step < 20; step++) {
      const planned = next(Object.assign(state, { overBudget: { cap: "max_cost" } }), shaped);
      if (planned.do === "deliver") state.unread = [];
      else if (planned.do === "clear") state.fold(newCleared(planned.message, planned.cleared).entry);
      else {
        const isFinalCall = planned.do === "call_model" && planned.finalCall === "max_cost";
        expect(isFinalCall || planned.do === "settle" || planned.do === "check_output").toBe(true);
        return;
      }
    }
    expect.unreachable("the run goes round");
  });
});

describe("tools", () => {
  test("once all calls are answered, the model is called", () => {
    const story = asked().asks(call("a"), call("b")).started("a").started("b").result("b");
    expect(next(story.log(), rules())).toMatchObject({ do: "run_tools", calls: [{ id: "a" }] });
    expect(next(story.result("a").log(), rules())).toEqual({ do: "call_model", message: 3, turn: 2 });
  });

  test("a call that began without a result was interrupted; an idempotent one runs again, a new one runs", () => {
    const story = asked().asks(call("a"), call("b", "look"), call("c"), call("d"));
    story.started("a").started("b", "look").started("c").result("c");
    expect(next(story.log(), rules())).toMatchObject({
      calls: [
        { id: "a", how: "interrupted" },
        { id: "b", how: "run" },
        { id: "d", how: "run" },
      ],
    });
  });

  test("whether a tool may run again is what this worker's tools say, not the log", () => {
    const log = asked().asks(call("a", "look")).started("a", "look").log();
    expect(next(log, rules({}, { idempotentTools: new Set() }))).toMatchObject({
      calls: [{ how: "interrupted" }],
    });
  });

  test("the fifth identical call is not executed and the next call hands back", () => {
    const story = asked();
    for (const id of ["1", "2", "3", "4"]) story.calls(id, "look", { q: 1, r: 2 });
    expect(next(story.log(), rules())).toEqual({ do: "call_model", message: 9, turn: 5 });
    story.asks(call("5", "look", { r: 2, q: 1 }), call("6", "write"));
    expect(next(story.log(), rules())).toMatchObject({
      calls: [
        { id: "5", how: "repeated" },
        { id: "6", how: "run" },
      ],
    });
    story.result("5", "no", true).started("6").result("6");
    expect(next(story.log(), rules())).toMatchObject({ do: "call_model", finalCall: "loop_detected" });
  });

  test("five identical calls in one message count like five in a row", () => {
    const story = asked().asks(...["1", "2", "3", "4", "5"].map((id) => call(id, "look", {})));
    const hows = ["run", "run", "run", "run", "repeated"].map((how) => expect.objectContaining({ how }));
    expect(next(story.log(), rules())).toMatchObject({ calls: hows });
  });
});

describe("an empty answer", () => {
  test.each(["end_turn", "stop_sequence"])("with %s gets one nudge, and the second is final", (stop) => {
    const story = asked().model(stop, [text(" \n")]);
    expect(next(story.log(), rules())).toEqual({ do: "call_model", message: 3, turn: 2 });
    expect(next(story.model(stop).log(), rules())).toEqual(ends("end_turn", true));
  });

  test("is final at once when an answer to a nudge, also where the message before had text", () => {
    const story = asked()
      .calls("a")
      .model("end_turn")
      .model("end_turn", [text("here it is")]);
    expect(next(story.log(), rules())).toEqual(ends("end_turn", true));
  });

  test("that came before a message of the parent was not nudged: the next one is", () => {
    const story = asked().model("end_turn").user("are you there?").model("end_turn");
    expect(next(story.log(), rules())).toEqual({ do: "call_model", message: 5, turn: 3 });
  });

  test("on the last but one turn hands back instead of nudging", () => {
    const step = next(asked().model("end_turn").log(), rules({ max_turns: 2 }));
    expect(step).toEqual({ do: "call_model", message: 3, turn: 2, finalCall: "max_turns" });
  });
});

describe("messages of the parent", () => {
  const unread = [message("and this"), message("and that")];

  test("are all delivered before the first call, and consume the inbox up to the last of them", () => {
    const log = new Story().log({ unread, inboxRead: 7 });
    expect(next(log, rules())).toEqual({ do: "deliver", message: 0, messages: unread, consumeTo: 9 });
  });

  test("that come in mid-run wait for the tool results and go with them", () => {
    const story = asked().asks(call("a")).started("a");
    expect(next(story.log({ unread }), rules({}, { idempotentTools: new Set(["write"]) }))).toMatchObject({
      do: "run_tools",
    });
    story.result("a");
    expect(next(story.log({ unread }), rules())).toMatchObject({ do: "deliver", message: 2, consumeTo: 3 });
    story.user("and this", "and that");
    expect(next(story.log(), rules())).toEqual({ do: "call_model", message: 3, turn: 2 });
  });

  test("that come while a delivered one waits for its answer are left for the next turn", () => {
    expect(next(asked().log({ unread }), rules())).toEqual({ do: "call_model", message: 1, turn: 1 });
  });

  test("that come at the natural end keep the run going", () => {
    const story = asked().model("end_turn", [text("done")]);
    expect(next(story.log({ unread }), rules())).toMatchObject({ do: "deliver", message: 2 });
    story.user("and this", "and that");
    expect(next(story.log(), rules())).toEqual({ do: "call_model", message: 3, turn: 2 });
  });

  test("that come at the natural end when nothing more may be bought wait for the next run", () => {
    const log = asked()
      .model("end_turn", [text("done")])
      .log({ unread });
    expect(next(log, rules({ max_total_tokens: 10 }))).toEqual(ends("end_turn"));
  });

  test("that come at an end which is not natural do not prolong the run", () => {
    const log = asked()
      .model("max_tokens", [text("so far")])
      .log({ unread });
    expect(next(log, rules())).toEqual(ends("max_tokens"));
  });

  test("wait while the model pauses, unless this is the last call", () => {
    const log = asked()
      .model("pause_turn", [{ type: "server_tool_use", id: "s" }])
      .log({ unread });
    expect(next(log, rules())).toEqual({ do: "call_model", message: 3, turn: 2 });
    expect(next(log, rules({ max_turns: 2 }))).toMatchObject({ do: "deliver", message: 2 });
  });

  test("start a run whatever the caps say, so that none is left to start the next run, and the next", () => {
    const log = new Story().log({ unread, elapsedMs: 1_800_000 });
    expect(next(log, rules())).toMatchObject({ do: "deliver", message: 0 });
    expect(next(asked().log({ elapsedMs: 1_800_000 }), rules())).toEqual(ends("max_duration"));
  });

  test("a run without any has nothing to do and fails", () => {
    expect(next(new Story().log(), rules())).toEqual(ends("model_error"));
  });
});

describe("a cap", () => {
  const turn = () =>
    asked()
      .model("tool_use", [text("so far"), call("a")])
      .started("a")
      .result("a");
  const reserveMs = 60_000;

  /** Which limits and circumstances make it hand back, and which leave no call at all. */
  test.each<[CapReason, Partial<Limits>, Now, Partial<Limits>, Now]>([
    ["max_turns", { max_turns: 2 }, {}, { max_turns: 1 }, {}],
    ["max_total_tokens", { max_total_tokens: 29 }, {}, { max_total_tokens: 10 }, {}],
    ["max_cost", { max_cost_usd: 0.7 }, {}, { max_cost_usd: 0.25 }, {}],
    ["max_duration", {}, { elapsedMs: 1_800_000 - reserveMs }, {}, { elapsedMs: 1_800_000 }],
    ["finished_by_parent", {}, { finish: true }, { max_turns: 1 }, { finish: true }],
  ])(
    "of %s hands back, and ends the run when that was answered, failed, or cannot be",
    (cause, limits, now, no, then) => {
      const finalCall = { do: "call_model", message: 3, turn: 2, finalCall: cause };
      expect(next(turn().log(now), rules(limits))).toEqual(finalCall);
      const answered = turn().model("end_turn", [text("found")], { hand_back: cause });
      expect(next(answered.log(now), rules(limits))).toEqual(ends(cause));
      expect(next(turn().failure("model_error", cause).log(now), rules(limits))).toEqual(ends(cause));
      const given = cause === "finished_by_parent" ? "max_turns" : cause;
      expect(next(turn().log(then), rules(no))).toEqual(ends(given));
    },
  );

  test("lets the tools of the last answer run first", () => {
    const log = asked().asks(call("a")).log({ finish: true });
    expect(next(log, rules({ max_turns: 1 }))).toMatchObject({ do: "run_tools" });
  });

  test("of one turn is one call, without tools", () => {
    const only = { do: "call_model", message: 1, turn: 1, finalCall: "max_turns" };
    expect(next(asked().log(), rules({ max_turns: 1 }))).toEqual(only);
  });
});

describe("calls that brought nothing", () => {
  test.each(["context_window", "model_error"] as const)("a terminal %s ends the run as that", (kind) => {
    expect(next(asked().calls("a").failure(kind).log(), rules())).toEqual(ends(kind));
  });

  test("a final call that failed ends the run with its cap", () => {
    const log = asked().calls("a").failure("model_error", "max_cost").log();
    expect(next(log, rules())).toEqual(ends("max_cost"));
  });

  test.each(["end_turn", "tool_use", "refusal", "max_tokens", "odd"])(
    "a final call that stopped with %s ends the run with its cap",
    (stop) => {
      const log = asked()
        .calls("a")
        .model(stop, [call("b")], { hand_back: "max_duration" })
        .log();
      expect(next(log, rules())).toEqual(ends("max_duration"));
      expect(next(Object.assign(log, { unread: [message("more")] }), rules())).toEqual(ends("max_duration"));
    },
  );

  test("cut off by this side changes nothing but the cost", () => {
    const story = asked().purchase(5, 0.1);
    expect(next(story.log(), rules())).toEqual({ do: "call_model", message: 1, turn: 1 });
  });
});

describe("a kept-alive agent's next run", () => {
  const unread = [message("next")];
  const delivers = (n: number) => ({ do: "deliver", message: n, messages: unread });

  test("follows the last answer and counts its own turns", () => {
    const story = asked()
      .calls("a")
      .model("end_turn", [text("done")])
      .nextRun();
    expect(next(story.log({ unread }), rules({ max_turns: 3 }))).toMatchObject(delivers(4));
    story.user("next");
    expect(next(story.log(), rules({ max_turns: 3 }))).toEqual({ do: "call_model", message: 5, turn: 1 });
  });

  test("does not end with the failure of the one before", () => {
    const story = asked().failure("context_window").nextRun(2);
    expect(next(story.log({ unread }), rules())).toMatchObject(delivers(2));
    expect(next(story.user("next").log(), rules())).toEqual({ do: "call_model", message: 3, turn: 1 });
  });

  test("does not end with a failed final call after tools either", () => {
    const story = asked().calls("a").failure("model_error", "max_turns").nextRun(4);
    expect(next(story.log({ unread }), rules())).toMatchObject(delivers(4));
    expect(next(story.user("next").log(), rules())).toEqual({ do: "call_model", message: 5, turn: 1 });
  });

  test("does not stand on a message of the one before that never got an answer", () => {
    const story = asked().nextRun(2);
    expect(next(story.log({ unread }), rules())).toMatchObject(delivers(2));
    expect(next(story.user("next").log(), rules())).toEqual({ do: "call_model", message: 3, turn: 1 });
  });

  test("starts its own count of repetitions and of empty answers", () => {
    const story = asked();
    for (const id of ["1", "2", "3", "4"]) story.calls(id, "look", {});
    story
      .model("end_turn")
      .nextRun()
      .user("next")
      .asks(call("5", "look", {}));
    expect(next(story.log(), rules())).toMatchObject({ calls: [{ how: "run" }] });
    const silent = asked().model("end_turn").model("end_turn").nextRun().user("next").model("end_turn");
    expect(next(silent.log(), rules())).toMatchObject({ do: "call_model" });
  });
});

describe("paid calls whose answer could not be used", () => {
  test("count as turns, also for the cap", () => {
    const story = asked().broken(5, 0.1);
    expect(next(story.log(), rules())).toEqual({ do: "call_model", message: 1, turn: 2 });
    story.broken(5, 0.1, 1);
    const last = { do: "call_model", message: 1, turn: 3, finalCall: "max_turns" };
    expect(next(story.log(), rules({ max_turns: 3 }))).toEqual(last);
    expect(next(story.broken(5, 0.1, 2).log(), rules({ max_turns: 3 }))).toEqual(ends("max_turns"));
  });

  test("end the run as model_error after five in a row", () => {
    const story = asked();
    for (let k = 0; k < 4; k++) story.broken(1, 0, k);
    expect(next(story.log(), rules())).toMatchObject({ do: "call_model", turn: 5 });
    expect(next(story.broken(1, 0, 4).log(), rules())).toEqual(ends("model_error"));
  });

  test("are no five in a row when an answer came in between, or when this side cut one off", () => {
    const story = asked();
    for (let k = 0; k < 4; k++) story.broken(1, 0, k);
    story.purchase(1, 0, 4);
    expect(next(story.log(), rules())).toMatchObject({ do: "call_model" });
    story.calls("a");
    for (let k = 0; k < 4; k++) story.broken(1, 0, k);
    expect(next(story.log(), rules())).toMatchObject({ do: "call_model" });
  });

  test("are also answers of which every call was refused", () => {
    const story = asked();
    for (let k = 0; k < 4; k++)
      story
        .asks(call(`${k}`), call(`x${k}`))
        .refused(`${k}`)
        .refused(`x${k}`);
    expect(next(story.log(), rules())).toMatchObject({ do: "call_model" });
    story.asks(call("4")).refused("4");
    expect(next(story.log(), rules())).toEqual(ends("model_error"));
    expect(story.log().tally.toolCalls).toBe(0);
  });

  test("are not answers of which one call could be made", () => {
    const story = asked();
    for (let k = 0; k < 6; k++) {
      story
        .asks(call(`${k}`), call(`x${k}`))
        .started(`${k}`)
        .result(`${k}`)
        .refused(`x${k}`);
    }
    expect(next(story.log(), rules())).toMatchObject({ do: "call_model" });
  });
});
