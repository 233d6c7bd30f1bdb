/** Guarantee: a reply says what is wrong with the output only where something is. */
import { expect, test } from "vitest";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import { replyBody } from "../../../../src/worker/loop/reply-body.ts";
import { asked, rules, text } from "./story.ts";

test("an output that fits has no error, one that does not fit has the reason", () => {
  const bodyWith = (verdict: object) => {
    const story = asked().model("end_turn", [text('{"a":1}')]);
    story.add(entryKey.verdict(1), verdict);
    return replyBody(story.log(), rules({}, { outputSchema: { type: "object" } }));
  };
  const fitting = bodyWith({ fits: true });
  expect(fitting.output).toEqual({ a: 1 });
  expect(fitting).not.toHaveProperty("error");
  expect(bodyWith({ fits: false, problem: "at #: no a" }).error).toBe(
    "The output does not fit its schema: at #: no a.",
  );
});
