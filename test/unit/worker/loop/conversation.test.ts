import { describe, expect, test } from "vitest";
import { type CapReason, STOP_REASONS } from "../../../../src/shared/protocol/reply.ts";
import { byId, finalCallPrompt, shiftedBehind } from "../../../../src/worker/loop/conversation.ts";
import { readLog } from "../../../../src/worker/loop/log.ts";
import { RunState } from "../../../../src/worker/loop/state.ts";
import { problemOf } from "./accepted.ts";
import { asked, call, conversation, type Story, text } from "./story.ts";

/** Each message as `role: what it holds`, tool results as `[id]`. */
function outline(story: Story, finalCall?: Parameters<typeof conversation>[1]): string[] {
  const messages = conversation(story.log(), finalCall);
  expect(problemOf(messages)).toBeUndefined();
  return messages.map(({ role, content }) => {
    const parts = content.map((block) => {
      if (block.type === "tool_result") return `[${block.tool_use_id}${block.is_error ? "!" : ""}]`;
      return block.type === "text"
        ? `${block.text}`.replace(/^(.{12}).+/, "$1…")
        : `(${block.id ?? block.type})`;
    });
    return `${role}: ${parts.join(" ")}`;
  });
}

test("of several calls with one id the first is found", () => {
  const calls = [
    { id: "a", n: 1 },
    { id: "b", n: 2 },
    { id: "a", n: 3 },
  ];
  expect(byId(calls).get("a")).toBe(calls[0]);
  expect(byId(calls).get("c")).toBeUndefined();
});

test("places behind results that are left out are found in one walk over both", () => {
  const each = 500;
  const leftOut = Array.from({ length: each }, (_, i) => ({ at: 20 * i, length: 10, stub: "[gone]" }));
  let looks = 0;
  const counted = new Proxy(leftOut, {
    get(results, name, receiver) {
      looks += 1;
      return Reflect.get(results, name, receiver);
    },
  });
  const places = Array.from({ length: each }, (_, i) => ({ at: 20 * i + 15 }));
  expect(shiftedBehind(places, counted)).toEqual(places.map(({ at }, i) => ({ at: at - 4 * (i + 1) })));
  expect(looks).toBeLessThanOrEqual(4 * each);
});

test("a model that was cut off is told to go on in its own run, not at the beginning of the next one", () => {
  const story = asked("go")
    .calls("a")
    .model("model_context_window_exceeded", [text("half")]);
  story.cleared(1, true);
  expect(outline(story).at(-1)).toBe("user: Your last me…");
  expect(outline(story.nextRun().user("next")).at(-1)).toBe("user: next");
});

describe("tool results", () => {
  test("come first, in the order of the calls, whenever they were committed, then what the parent said", () => {
    const story = asked("go").asks(call("a"), call("b"), call("c"));
    story.result("c").result("a", "no", true).result("b").notice("files gone").user("and", "more");
    expect(outline(story)).toEqual([
      "user: go",
      "assistant: (a) (b) (c)",
      "user: [a!] [b] [c] files gone and more",
    ]);
  });

  test("of calls that were never made say so, so that every call has one", () => {
    const story = asked("go")
      .model("max_tokens", [text("let me"), call("a")])
      .nextRun()
      .user("next");
    expect(outline(story)).toEqual(["user: go", "assistant: let me (a)", "user: [a!] next"]);
    expect(JSON.stringify(conversation(story.log()))).toContain("Not executed");
  });

  test("of calls that had begun when the run ended say that their effect is unknown; those of questions do not", () => {
    const story = asked("go").asks(call("a", "write"), call("b", "write"), call("q", "ask_parent"));
    story.started("a").started("q", "ask_parent").nextRun().user("next");
    expect(outline(story)).toEqual(["user: go", "assistant: (a) (b) (q)", "user: [a!] [b!] [q!] next"]);
    const results = conversation(story.log())
      .at(-1)
      ?.content.map((block) => block.content);
    expect(results).toEqual([
      expect.stringMatching(/^Interrupted: .* effect is unknown/),
      expect.stringMatching(/^Not executed/),
      expect.stringMatching(/^Not executed/),
      undefined,
    ]);
  });

  test("of a final call that asked for tools all the same are there for the next run", () => {
    const story = asked("go")
      .model("end_turn", [call("a")], { hand_back: "max_turns" })
      .nextRun()
      .user("next");
    expect(outline(story)).toEqual(["user: go This is your…", "assistant: (a)", "user: [a!] next"]);
  });

  test("keep what the tool wrote, to the byte", () => {
    const odd = ' \u2028"\\𝒶\u0000 ';
    const messages = conversation(asked().asks(call("a")).result("a", odd).log());
    expect(messages.at(-1)?.content).toEqual([{ type: "tool_result", tool_use_id: "a", content: odd }]);
  });
});

describe("remarks of the runtime", () => {
  const repeat = (count: number) => {
    const story = asked("go");
    for (let i = 1; i <= count; i++) story.calls(`${i}`, "look", i % 2 ? { q: 1, r: 2 } : { r: 2, q: 1 });
    return story;
  };
  const NOTICE = "You have mad…";

  test("the third identical call in a row gets a notice, once, and it stays in the conversation", () => {
    expect(outline(repeat(2)).at(-1)).toBe("user: [2]");
    expect(outline(repeat(3)).at(-1)).toBe(`user: [3] ${NOTICE}`);
    const later = outline(repeat(4));
    expect(later[6]).toBe(`user: [3] ${NOTICE}`);
    expect(later[8]).toBe("user: [4]");
  });

  test("a different call in between starts the count again", () => {
    const story = repeat(2).calls("x", "look", { q: 2 }).calls("4", "look", { q: 1, r: 2 });
    expect(outline(story).join("\n")).not.toContain(NOTICE);
  });

  test("the notice also comes when the third call is one of several in a message", () => {
    const story = asked("go").asks(...["1", "2", "3", "4"].map((id) => call(id, "look", {})));
    expect(outline(story).at(-1)).toBe(`user: [1!] [2!] [3!] [4!] ${NOTICE}`);
  });

  test("an empty answer is not sent back; a nudge is", () => {
    const story = asked("go").model("end_turn", [text(" ")]);
    expect(outline(story)).toEqual(["user: go Your last me…"]);
    const answered = story.model("end_turn", [text("here")]);
    expect(outline(answered)).toEqual(["user: go Your last me…", "assistant: here"]);
  });

  test("after tools and an empty answer, the nudge follows the results", () => {
    const story = asked("go")
      .calls("a")
      .model("end_turn", [{ type: "thinking", thinking: "hm", signature: "s" }]);
    expect(outline(story)).toEqual(["user: go", "assistant: (a)", "user: [a] Your last me…"]);
  });

  test("what the parent says, or a final call, takes the place of the nudge", () => {
    const empty = () => asked("go").model("stop_sequence");
    expect(outline(empty().user("well?"))).toEqual(["user: go well?"]);
    expect(outline(empty(), "max_turns")).toEqual(["user: go This is your…"]);
  });

  test("nothing of an earlier run is remarked upon in the next one", () => {
    expect(outline(repeat(3).nextRun().user("next")).at(-1)).toBe("user: [3] next");
    expect(outline(repeat(3).nextRun(8).user("next")).at(-1)).toBe("user: [3] next");
    const counted = repeat(2).nextRun().user("next").calls("3", "look", { q: 1, r: 2 });
    expect(outline(counted).at(-1)).toBe("user: [3]");
    const failedNudge = asked("go").model("end_turn").failure("context_window").nextRun(4).user("next");
    expect(outline(failedNudge)).toEqual(["user: go next"]);
  });
});

describe("the final call", () => {
  const causes = STOP_REASONS.partial.filter(
    (reason): reason is CapReason => reason !== "max_tokens" && reason !== "invalid_output",
  );

  test.each(causes)("because of %s says why, and to call no tools", (cause) => {
    expect(finalCallPrompt(cause)).toMatch(/^[A-Z][^.]+\. Do not call any more tools\. Report /);
    expect(outline(asked("go").calls("a"), cause).at(-1)).toMatch(/^user: \[a\] .{12}…$/);
  });

  test("stands in the log of its answer, and the conversation is the same before and after it", () => {
    const before = conversation(asked("go").calls("a").log(), "max_cost");
    const after = conversation(
      asked("go")
        .calls("a")
        .model("end_turn", [text("found")], { hand_back: "max_cost" })
        .log(),
    );
    expect(JSON.stringify(after.slice(0, -1))).toBe(JSON.stringify(before));
  });

  test("that failed leaves no trace for the next run", () => {
    const story = asked("go").calls("a").failure("model_error", "max_turns").nextRun(4).user("next");
    expect(outline(story)).toEqual(["user: go", "assistant: (a)", "user: [a] next"]);
  });
});

describe("the whole", () => {
  test("spans the runs of a kept-alive agent", () => {
    const story = asked("one")
      .calls("a")
      .model("end_turn", [text("first")])
      .nextRun()
      .user("two")
      .calls("b");
    expect(outline(story)).toEqual([
      "user: one",
      "assistant: (a)",
      "user: [a]",
      "assistant: first",
      "user: two",
      "assistant: (b)",
      "user: [b]",
    ]);
  });

  test("keeps a message that got no answer before the next run's", () => {
    expect(outline(asked("one").nextRun(2).user("two"))).toEqual(["user: one two"]);
  });

  test("sends a paused answer back unchanged and joins what follows to it", () => {
    const story = asked("go").model("pause_turn", [
      text("let me search"),
      { type: "server_tool_use", id: "s1" },
    ]);
    expect(outline(story)).toEqual(["user: go", "assistant: let me searc… (s1)"]);
    story.model("pause_turn", [{ type: "server_tool_use", id: "s2" }]).model("end_turn", [text("found")]);
    expect(outline(story)).toEqual(["user: go", "assistant: let me searc… (s1) (s2) found"]);
  });

  test("is the same, byte for byte, for the same entries in any order", () => {
    const story = asked("go").asks(call("a"), call("b")).result("b").result("a").user("and", "more");
    const backwards = new RunState(1, readLog([...story.entries].reverse()));
    expect(backwards.conversation.request()).toEqual(story.log().conversation.request());
  });

  test("is the same, however often it is asked for", () => {
    const log = asked("go")
      .model("end_turn")
      .model("pause_turn", [text("a")])
      .model("end_turn", [text("b")])
      .log();
    const first = log.conversation.request();
    log.conversation.request("max_turns");
    expect(log.conversation.request()).toEqual(first);
  });

  test("leaves blank words of anybody out", () => {
    expect(outline(asked("", " ", "go").notice("\n"))).toEqual(["user: go"]);
  });
});
