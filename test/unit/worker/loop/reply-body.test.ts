import { describe, expect, test } from "vitest";
import { ZERO_USAGE } from "../../../../src/shared/protocol/content.ts";
import { permissionQuestion } from "../../../../src/shared/protocol/message.ts";
import { ReplyBody } from "../../../../src/shared/protocol/reply.ts";
import { replyBody, withQuestions } from "../../../../src/worker/loop/reply-body.ts";
import type { RunRules } from "../../../../src/worker/loop/rules.ts";
import { asked, call, rules, type Story, text, used } from "./story.ts";

/** The reply's body as the parent would parse it. */
function bodyOf(story: Story, by: RunRules = rules(), elapsedMs = 0): ReplyBody {
  return ReplyBody.parse(JSON.parse(JSON.stringify(replyBody(story.log({ elapsedMs }), by))));
}

describe("the counters", () => {
  test("of a run that got no answer are zero, and the model is the one asked for", () => {
    expect(bodyOf(asked(), rules(), 12.6)).toEqual({
      summary: "(no summary)",
      truncated: false,
      turns: 0,
      tokens: 0,
      usage: ZERO_USAGE,
      cost_usd: 0,
      tools_called: {},
      alerts: [],
      duration_ms: 13,
      model: "asked-for",
    });
  });

  test("add up the four kinds of tokens", () => {
    const usage = {
      input_tokens: 1,
      output_tokens: 2,
      cache_read_input_tokens: 4,
      cache_creation_input_tokens: 8,
    };
    const story = asked()
      .model("tool_use", [call("a")], { usage })
      .model("end_turn", [text("x")], { usage });
    expect(bodyOf(story)).toMatchObject({
      turns: 2,
      tokens: 30,
      usage: {
        input_tokens: 2,
        output_tokens: 4,
        cache_read_input_tokens: 8,
        cache_creation_input_tokens: 16,
      },
      cost_usd: 0.5,
      model: "answering",
    });
  });

  test("count a call that was cut off as cost and tokens, not as a turn", () => {
    const story = asked()
      .purchase(5, 0.5)
      .purchase(5, 0.5, 1)
      .model("end_turn", [text("x")]);
    expect(bodyOf(story)).toMatchObject({ turns: 1, tokens: 20, cost_usd: 1.25, usage: used(20) });
  });

  test("count calls by name once they began or were answered, not those that were cut off", () => {
    const story = asked().asks(call("a"), call("b", "look"), call("c", "look")).started("a").result("b");
    expect(bodyOf(story).tools_called).toEqual({ write: 1, look: 1 });
    expect(bodyOf(asked().model("max_tokens", [call("a")])).tools_called).toEqual({});
  });

  test("leave out calls that were refused or denied, also behind their mark", () => {
    const story = asked()
      .asks(call("a"), call("b"), call("c", "look"), call("d", "look"))
      .refused("a")
      .denied("b");
    expect(
      bodyOf(story.started("c", "look").denied("c").started("d", "look").result("d")).tools_called,
    ).toEqual({
      look: 1,
    });
  });

  test.each(["constructor", "toString", "hasOwnProperty", "valueOf"])(
    "count a tool that the model calls %s",
    (name) => {
      const story = asked().calls("a", name).calls("b", name);
      expect(Object.entries(bodyOf(story).tools_called)).toEqual([[name, 2]]);
    },
  );

  test("count calls in the order of their names, whoever folds the log", () => {
    const story = asked().calls("a", "write").calls("b", "grep").calls("c", "look");
    expect(Object.keys(bodyOf(story).tools_called)).toEqual(["grep", "look", "write"]);
  });

  test("count questions to the parent, not those whether a call may run", () => {
    const body = bodyOf(asked().asks(call("a")));
    const mayRun = permissionQuestion("1/a", "write", {}, "ask write");
    expect(withQuestions(body, [mayRun])).toEqual(body);
    const both = withQuestions(body, [mayRun, { question_id: "1/b", text: "Which?" }]);
    expect(both.tools_called).toEqual({ ...body.tools_called, ask_parent: 1 });
  });

  test("are those of the run, not of the agent", () => {
    const story = asked()
      .calls("a")
      .purchase(100, 9)
      .nextRun(4)
      .user("next")
      .model("end_turn", [text("x")]);
    expect(bodyOf(story)).toMatchObject({
      turns: 1,
      tokens: 10,
      cost_usd: 0.25,
      tools_called: {},
      summary: "x",
    });
    expect(bodyOf(story.nextRun())).toMatchObject({
      turns: 0,
      tokens: 0,
      cost_usd: 0,
      summary: "(no summary)",
    });
  });
});

describe("the summary", () => {
  test("is the joined text of the last message of the run that has any", () => {
    const story = asked()
      .model("tool_use", [text("first"), call("a")])
      .started("a")
      .result("a");
    story.model("tool_use", [text("so "), call("b"), text("far")]).model("end_turn", [text(" ")]);
    expect(bodyOf(story).summary).toBe("so far");
  });

  test("of a cut-off answer is what was written", () => {
    expect(bodyOf(asked().model("max_tokens", [text("half an ans"), call("a")])).summary).toBe("half an ans");
  });

  test("is never an earlier run's", () => {
    const story = asked()
      .model("end_turn", [text("old")])
      .nextRun()
      .user("next")
      .calls("a");
    expect(bodyOf(story).summary).toBe("(no summary)");
  });

  test("of a long answer is cut, and the whole text can still be had", () => {
    const long = `${"x".repeat(6_000)}\n`;
    const story = asked().model("end_turn", [text(long)]);
    expect(bodyOf(story)).toMatchObject({ truncated: true });
    expect(story.log().tally.text).toBe(long);
  });
});

describe("the error", () => {
  test("is the sentence of the failure that ended the run", () => {
    expect(bodyOf(asked().calls("a").failure("model_error")).error).toBe("it was a model_error");
  });

  test("says what the model stopped for, where that is no end or a call that it did not make", () => {
    expect(bodyOf(asked().model("something_new", [text("x")])).error).toBe(
      'The model stopped for a reason that is not known here: "something_new".',
    );
    expect(bodyOf(asked().asks(text("I will look"))).error).toBe(
      "The model stopped for a tool call, and made none.",
    );
    for (const stop of ["end_turn", "stop_sequence", "pause_turn", "max_tokens", "refusal"])
      expect(bodyOf(asked().model(stop, [text("x")])).error).toBeUndefined();
    expect(bodyOf(asked().calls("a")).error).toBeUndefined();
  });

  test("says nothing of the stop of a last call: its cap is the reason", () => {
    for (const stop of ["tool_use", "compaction_needed"]) {
      const story = asked().model(stop, [text("so far")], { hand_back: "max_turns" });
      expect(bodyOf(story).error).toBeUndefined();
    }
  });

  test("says what the provider said of a refusal, in one bounded sentence", () => {
    const refused = (refusal?: string) => asked().model("refusal", [text("I")], refusal ? { refusal } : {});
    expect(bodyOf(refused("cyber: It asks for an exploit.")).error).toBe(
      'The provider says of its refusal: "cyber: It asks for an exploit.".',
    );
    expect(bodyOf(refused('"\ud800'.repeat(10_000))).error?.length).toBeLessThan(2_000);
    expect(bodyOf(refused()).error).toBeUndefined();
  });

  test("of an earlier run is not this one's", () => {
    const story = asked().failure("context_window").nextRun(2);
    expect(bodyOf(story).error).toBeUndefined();
    expect(bodyOf(story.user("next").model("end_turn", [text("x")])).error).toBeUndefined();
  });
});

describe("alerts", () => {
  const turns = (count: number) => {
    const story = asked();
    for (let i = 1; i <= count; i++) story.calls(`${i}`);
    return story;
  };

  test("lie at 80 % of the cap by default", () => {
    const limits = { max_turns: 5, max_total_tokens: 50, max_cost_usd: 1.25 };
    expect(bodyOf(turns(3), rules(limits)).alerts).toEqual([]);
    expect(bodyOf(turns(4), rules(limits)).alerts).toEqual([
      { kind: "turns", threshold: 4, value: 4 },
      { kind: "tokens", threshold: 40, value: 40 },
      { kind: "cost_usd", threshold: 1, value: 1 },
    ]);
  });

  test("say their numbers without the noise of binary fractions", () => {
    const story = asked();
    for (let i = 1; i <= 3; i++) story.model("tool_use", [call(`${i}`)], { cost_usd: 0.1 });
    expect(bodyOf(story, rules({ max_turns: 3 }, { alerts: { cost_usd: 0.3 } })).alerts).toEqual([
      { kind: "turns", threshold: 2.4, value: 3 },
      { kind: "cost_usd", threshold: 0.3, value: 0.3 },
    ]);
  });

  test("without a cap there is no default", () => {
    expect(bodyOf(asked().purchase(1e9, 1e6), rules()).alerts).toEqual([]);
  });

  test("lie where the caller put them, below or above the default", () => {
    const alerts = { turns: 2, tokens: 15, tool_calls: 2, cost_usd: 0.3 };
    expect(bodyOf(turns(1), rules({}, { alerts })).alerts).toEqual([]);
    expect(bodyOf(turns(2), rules({}, { alerts })).alerts).toEqual([
      { kind: "turns", threshold: 2, value: 2 },
      { kind: "tokens", threshold: 15, value: 20 },
      { kind: "tool_calls", threshold: 2, value: 2 },
      { kind: "cost_usd", threshold: 0.3, value: 0.5 },
    ]);
    expect(bodyOf(turns(4), rules({ max_turns: 5 }, { alerts: { turns: 5 } })).alerts).toEqual([]);
  });
});

describe("a last text that is short beside an earlier one", () => {
  const report = "finding ".repeat(200).trim();

  test("has the earlier one behind it, marked, and both are the whole text", () => {
    const story = asked()
      .model("tool_use", [text(report), call("a")])
      .result("a", "done")
      .model("end_turn", [text("The report is above.")]);
    expect(bodyOf(story).summary).toBe(
      `The report is above.\n\n[an earlier message of this run, longer than its last one:]\n\n${report}`,
    );
    expect(story.log().tally.report).toBe(bodyOf(story).summary);
  });

  test("has the longest one behind it, whatever was said in between, also a report of a paragraph", () => {
    const paragraph = report.slice(0, 400).trim();
    for (const [found, last] of [
      [report, "The report is above."],
      [paragraph.padEnd(400, "."), "Done."],
    ] as const) {
      const story = asked()
        .model("tool_use", [text(found), call("a")])
        .result("a", "done")
        .model("tool_use", [text("Let me tidy up."), call("b")])
        .result("b", "done")
        .model("end_turn", [text(last)]);
      expect(bodyOf(story).summary).toBe(
        `${last}\n\n[an earlier message of this run, longer than its last one:]\n\n${found}`,
      );
    }
    const beside = asked()
      .model("tool_use", [text("x".repeat(799)), call("a")])
      .result("a", "done");
    const enough = "x".repeat(200);
    expect(bodyOf(beside.model("end_turn", [text(enough)])).summary).toBe(enough);
  });

  test("stands alone while the run goes on, where it says enough itself, and where one JSON value was asked for", () => {
    const began = () =>
      asked()
        .model("tool_use", [text(report), call("a")])
        .result("a", "done");
    expect(bodyOf(began().model("tool_use", [text("Next."), call("b")])).summary).toBe("Next.");
    const enough = "x".repeat(201);
    expect(bodyOf(began().model("end_turn", [text(enough)])).summary).toBe(enough);
    const asJson = began().model("end_turn", [text("{}")]);
    expect(bodyOf(asJson, rules({}, { outputSchema: { type: "object" } })).summary).toBe("{}");
    const short = asked()
      .model("tool_use", [text("Let me look."), call("a")])
      .result("a", "done");
    expect(bodyOf(short.model("end_turn", [text("42")])).summary).toBe("42");
  });
});
