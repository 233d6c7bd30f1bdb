import { describe, expect, test } from "vitest";
import { ZodError } from "zod";
import { ZERO_USAGE } from "../../../../src/shared/protocol/content.ts";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import {
  type LoggedAnswer,
  type NewEntry,
  newAnswer,
  newDelivery,
  newFailure,
  newNotice,
  newPurchase,
  newResult,
  newStarted,
  readEntry,
  readLog,
} from "../../../../src/worker/loop/log.ts";
import { asked, call, text, used } from "./story.ts";

const json = JSON.stringify;
const started = json({ v: 1, name: "look" });
const result = json({ v: 1, content: "c", is_error: false, duration_ms: 1 });

const answer = (content: LoggedAnswer["content"], contentJson = json(content)): LoggedAnswer => ({
  content,
  contentJson,
  stopReason: 'odd ","content":["',
  model: 'm"1',
  usage: { ...ZERO_USAGE, cache_read_input_tokens: 3, output_tokens: 4 },
  costUsd: 0.000_001,
  finalCall: "max_cost",
});

describe("readLog", () => {
  test("knows each kind, and orders the entries by the message they belong to", () => {
    const story = asked("go")
      .purchase(3, 0.5)
      .asks(call("a"))
      .started("a")
      .result("a")
      .notice("n")
      .failure("model_error");
    const read = readLog([...story.entries].reverse());
    expect(read.map(({ kind, message }) => `${message} ${kind}`)).toEqual([
      "0 delivery",
      "1 purchase",
      "1 answer",
      "1 started",
      "1 result",
      "2 notice",
      "3 failure",
    ]);
    expect(read[1]).toMatchObject({
      kind: "purchase",
      message: 1,
      value: { v: 1, usage: used(3), cost_usd: 0.5, cut_off: true },
    });
    expect(read[5]).toMatchObject({ kind: "notice", message: 2, textJson: '"n"' });
  });

  test.each([
    "failure",
    "notice",
    "purchase",
    "purchase/1.0",
    "started",
    "result",
    "a/b",
    "a/started",
    "__proto__",
    "/",
  ])("a call's id may be %j without being taken for something else", (id) => {
    const entries = readLog([
      [entryKey.started(1, id), started],
      [entryKey.result(1, id), result],
    ]);
    expect(entries).toMatchObject([
      { kind: "started", message: 1, callId: id },
      { kind: "result", message: 1, callId: id },
    ]);
  });

  test.each([
    "",
    "x",
    "-1",
    "1.5",
    "NaN",
    "1/",
    "1/odd",
    "1/a/odd",
    "1/started",
    "1/failures",
    "1/purchase/1/2",
    "x/a/started",
    "1/a\n/odd",
  ])("the key %j is of no kind it knows and is refused", (key) => {
    expect(() => readLog([[key, started]])).toThrow("a kind that this version does not know");
  });

  test("a shape it does not know is refused", () => {
    const v2 = json({ ...JSON.parse(newAnswer(1, answer([text("a")]), 1).json), v: 2 });
    expect(() => readLog([["1", v2]])).toThrow(ZodError);
    expect(() => readLog([["0", started]])).toThrow(ZodError);
  });
});

describe("an entry that this process makes", () => {
  test.each<[string, NewEntry]>([
    ["delivery", newDelivery(0, 2, [{ v: 1, message_id: 'a"b', text: ' \u2028"\ud800 ' }])],
    ["notice", newNotice(2, 'files "gone"')],
    ["answer", newAnswer(1, answer([text('a","content":[]'), call("x")]), 12.4)],
    ["refusal", newAnswer(1, { ...answer([]), stopReason: "refusal", refusal: 'cyber: "no"' }, 0)],
    ["answer without content", newAnswer(1, answer([]), 0)],
    ["started", newStarted(1, "a/b", "look")],
    ["result", newResult(1, "a", "\u0000 found")],
    ["refused result", newResult(1, "a", "no", { isError: true, isRefused: true })],
    ["interrupted result", newResult(1, "a", "cut", { isError: true, isInterrupted: true, durationMs: 1.6 })],
    ["failure", newFailure(3, { v: 1, kind: "model_error", message: "no", hand_back: "max_turns" })],
    ["purchase", newPurchase(3, 7, 1, { v: 1, usage: used(4), cost_usd: 0.5 })],
  ])("a %s is read again as it was made", (_, { key, json: stored, entry }) => {
    expect(readEntry(key, stored)).toEqual(entry);
  });

  test("says nothing of what is mostly so", () => {
    const usual = {
      ...answer([], "[]"),
      stopReason: "tool_use",
      model: "m",
      costUsd: 0,
      finalCall: undefined,
    };
    expect(newAnswer(1, usual, 2).json).toBe(
      '{"v":1,"model":"m","usage":[0,4,3],"duration_ms":2,"content":[]}',
    );
    expect(newResult(1, "a", "found").json).toBe('{"v":1,"content":"found"}');
  });

  test("purchases in vain before one message are entries of their own", () => {
    const value = { v: 1 as const, usage: used(4), cost_usd: 0.5 };
    expect(newPurchase(3, 7, 1, value).key).not.toBe(newPurchase(3, 7, 2, value).key);
  });

  test("gives the blocks of an answer back with all members in the order in which they came", () => {
    const spelling =
      '[{"signature":"s","thinking":"t","type":"thinking"},{"id":"a","input":{"z":1,"__proto__":{"b":2},"a":3},"name":"x","type":"tool_use"}]';
    const { key, json: stored } = newAnswer(1, answer(JSON.parse(spelling), spelling), 1);
    const read = readEntry(key, stored);
    expect(read.kind === "answer" && json(read.content)).toBe(spelling);
  });

  test("gives the content of an answer back in the bytes in which the provider's adapter spelled it", () => {
    const spelling = '[ {"type": "text", "text": "\\u0061\\/", "n": 1.0} ]';
    const { key, json: stored } = newAnswer(1, answer(JSON.parse(spelling), spelling), 1);
    expect(readEntry(key, stored)).toMatchObject({ contentJson: spelling });
  });
});
