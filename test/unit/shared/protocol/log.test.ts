import { expect, test } from "vitest";
import { EntryKey, entryKey, UserEntry } from "../../../../src/shared/protocol/log.ts";

test("every entry key says what it names", () => {
  expect(EntryKey.parse(entryKey.message(12))).toEqual({ message: 12, kind: "message", callId: "" });
  expect(EntryKey.parse(entryKey.started(3, "toolu_1"))).toEqual({
    message: 3,
    kind: "started",
    callId: "toolu_1",
  });
  expect(EntryKey.parse(entryKey.result(3, "toolu_1"))).toEqual({
    message: 3,
    kind: "result",
    callId: "toolu_1",
  });
  expect(EntryKey.parse(entryKey.failure(5))).toEqual({ message: 5, kind: "failure", callId: "" });
  expect(EntryKey.parse(entryKey.notice(4))).toEqual({ message: 4, kind: "notice", callId: "" });
  expect(EntryKey.parse(entryKey.purchase(5, 7, 1))).toEqual({ message: 5, kind: "purchase", callId: "" });
});

test.for(["a/b", "started", "x/result/result", "", "purchase/1", "failure", "a\nb", "🦊"])(
  "a call whose id the provider spelled %j keeps its id and its kind",
  (id) => {
    if (id === "") return expect(EntryKey.safeParse(entryKey.result(1, id)).success).toBe(false);
    expect(EntryKey.parse(entryKey.started(1, id))).toEqual({ message: 1, kind: "started", callId: id });
    expect(EntryKey.parse(entryKey.result(1, id))).toEqual({ message: 1, kind: "result", callId: id });
  },
);

test.for(["", "x", "-1", "1.5", "1/", "1/a", "1/a/ended"])(
  "a key of an unknown kind (%j) is refused",
  (key) => {
    expect(EntryKey.safeParse(key).success).toBe(false);
  },
);

test("a user entry delivers at least one message of a run", () => {
  const message = { v: 1, message_id: "m-1", text: "look" };
  expect(UserEntry.safeParse({ v: 1, role: "user", run: 1, messages: [message] }).success).toBe(true);
  expect(UserEntry.safeParse({ v: 1, role: "user", run: 1, messages: [] }).success).toBe(false);
  expect(UserEntry.safeParse({ v: 1, role: "user", run: 0, messages: [message] }).success).toBe(false);
});
