import { describe, expect, test } from "vitest";
import { ZodError } from "zod";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import { NO_ENTRIES, withEntries } from "../../../../src/worker/loop/log.ts";
import { asked, call, text, used } from "./story.ts";

const json = JSON.stringify;
const started = json({ v: 1, name: "look" });
const result = json({ v: 1, content: "c", is_error: false, duration_ms: 1 });

describe("withEntries", () => {
  test("files each kind under the message it belongs to", () => {
    const story = asked("go")
      .purchase(3, 0.5)
      .asks(call("a"))
      .started("a")
      .result("a")
      .notice("n")
      .failure("model_error");
    const { deliveries, turns, started, results, failures, notices, purchases } = story.log().entries;
    expect([...deliveries.keys()]).toEqual([0]);
    expect([...turns.keys()]).toEqual([1]);
    expect([...started.keys()]).toEqual(["1/a"]);
    expect([...results.keys()]).toEqual(["1/a"]);
    expect([...failures.keys()]).toEqual([3]);
    expect([...notices]).toEqual([[2, { v: 1, text: "n" }]]);
    expect([...purchases]).toEqual([["1/purchase/1.0", { v: 1, usage: used(3), cost_usd: 0.5, message: 1 }]]);
  });

  test("takes nothing away from what it is given", () => {
    const before = asked("go").log().entries;
    const after = withEntries(before, [["0/notice", json({ v: 1, text: "n" })]]);
    expect(before.notices.size).toBe(0);
    expect(after.deliveries.size).toBe(1);
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
    const entries = withEntries(NO_ENTRIES, [
      [entryKey.started(1, id), started],
      [entryKey.result(1, id), result],
    ]);
    expect([...entries.started.keys()]).toEqual([`1/${id}`]);
    expect([...entries.results.keys()]).toEqual([`1/${id}`]);
    expect(entries.failures.size + entries.notices.size + entries.purchases.size).toBe(0);
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
    expect(() => withEntries(NO_ENTRIES, [[key, started]])).toThrow("a kind that this version does not know");
  });

  test("a shape it does not know is refused", () => {
    const v2 = json({ v: 2, role: "assistant", content: [text("a")] });
    expect(() => withEntries(NO_ENTRIES, [["1", v2]])).toThrow(ZodError);
    expect(() => withEntries(NO_ENTRIES, [["0", started]])).toThrow(ZodError);
  });
});
