import { describe, expect, test } from "vitest";
import { ENTRY_OVERHEAD_BYTES, LOG_MAX_BYTES } from "../../../../src/shared/protocol/log.ts";
import { makeRoom, nextAllowedCall } from "../../../../src/worker/loop/caps.ts";
import { next } from "../../../../src/worker/loop/next.ts";
import { replyBody } from "../../../../src/worker/loop/reply-body.ts";
import { asked, call, message, type Now, rules, type Story, text } from "./story.ts";

/** Where a run stands with `story`, if its log had so many bytes. */
const withBytes =
  (logBytes: number) =>
  (story: Story, now: Now = {}) =>
    Object.assign(story.log(now), { logBytes });
const full = withBytes(LOG_MAX_BYTES);
const almostFull = withBytes(LOG_MAX_BYTES - 1);

test("an entry counts its key, its JSON in bytes and 512 more", () => {
  const before = asked("a").log().logBytes;
  const { logBytes } = asked("a").user("\u00e9").log();
  const json = JSON.stringify({ v: 1, run: 1, messages: [message("\u00e9")] });
  expect(logBytes - before).toBe("0".length + Buffer.byteLength(json) + ENTRY_OVERHEAD_BYTES);
});

describe("a run whose log is full", () => {
  test("makes its final call, and not one byte earlier", () => {
    expect(nextAllowedCall(almostFull(asked().calls("a")), rules())).toEqual({ call: "ordinary" });
    expect(nextAllowedCall(full(asked().calls("a")), rules())).toEqual({
      call: "final",
      cause: "context_window",
    });
    expect(next(full(asked().calls("a")), rules())).toMatchObject({
      do: "call_model",
      finalCall: "context_window",
    });
  });

  test("still takes what the parent has said, and reports on it", () => {
    const story = asked().calls("a");
    expect(next(full(story, { unread: [message("more")] }), rules())).toMatchObject({
      do: "deliver",
      message: 2,
    });
    expect(next(full(story.user("more")), rules())).toMatchObject({ finalCall: "context_window" });
  });

  test("begins no call of the answer that has filled it, and asks nothing", () => {
    const story = asked().asks(call("a"), call("b", "ask_parent", { question: "Which?" }));
    const asking = rules({}, { canAsk: true });
    expect(next(almostFull(story), asking)).toMatchObject({ calls: [{ id: "a", how: "run" }] });
    expect(next(full(story), asking)).toMatchObject({
      do: "run_tools",
      calls: [
        { id: "a", how: "denied", reason: expect.stringContaining("too long") },
        { id: "b", how: "denied", reason: expect.stringContaining("too long") },
      ],
    });
  });

  test("makes a call once more that a crash has cut off, and tells of one that it must not repeat", () => {
    const story = asked().asks(call("a", "look"), call("b")).started("a", "look").started("b");
    expect(next(full(story), rules())).toMatchObject({
      calls: [
        { id: "a", how: "run" },
        { id: "b", how: "interrupted" },
      ],
    });
  });

  test("buys no summary: that makes no log shorter", () => {
    const long = "a long word ".repeat(50);
    const story = asked();
    for (let k = 1; k <= 4; k++) story.asks(text(`${k} ${long}`), call(`c${k}`)).result(`c${k}`);
    expect(makeRoom(story.log(), rules())).toMatchObject({ do: "call_model" });
    expect(makeRoom(full(story), rules())).toBeUndefined();
  });

  test("ends context_window behind its final call, and its reply says why and what to do", () => {
    const state = full(asked().model("end_turn", [text("so far")], { hand_back: "context_window" }));
    expect(next(state, rules())).toEqual({ do: "settle", reason: "context_window", natural: false });
    expect(replyBody(state, rules())).toMatchObject({
      summary: "so far",
      error: expect.stringMatching(/log of this sub-agent has reached 32 MB.*Spawn a new one/),
    });
  });

  test("says what its parent has asked for first, if that was an end", () => {
    const state = full(asked().calls("a"), { finish: true });
    expect(next(state, rules())).toMatchObject({ finalCall: "finished_by_parent" });
  });

  test("ends as it would where the model has finished", () => {
    const state = full(asked().model("end_turn", [text("done")]));
    expect(next(state, rules())).toEqual({ do: "settle", reason: "end_turn", natural: true });
    expect(replyBody(state, rules()).error).toBeUndefined();
  });
});
