/** Guarantee: what was found about an answer holds for that answer, not for the one after it. */
import { expect, test } from "vitest";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import { next } from "../../../../src/worker/loop/next.ts";
import { asked, rules, text } from "./story.ts";

test("an answer after one that did not fit the output schema is checked itself", () => {
  const shaped = rules({}, { outputSchema: { type: "object" } });
  const story = asked().model("end_turn", [text("no object")]);
  story.add(entryKey.verdict(1), { fits: false, problem: "at #: no object" });
  story.model("end_turn", [text("{}")]);
  expect(next(story.log(), shaped)).toEqual({ do: "check_output", message: 3, text: "{}" });
  story.add(entryKey.verdict(3), { fits: true });
  expect(next(story.log(), shaped)).toMatchObject({ do: "settle", reason: "end_turn" });
});
