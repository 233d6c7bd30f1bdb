import { expect, test } from "vitest";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import { replyBody } from "../../../../src/worker/loop/reply-body.ts";
import { asked, rules, text } from "./story.ts";

test("a run that ends before its first answer bears no error about the output of the run before", () => {
  const story = asked().model("end_turn", [text("no object")]);
  story.add(entryKey.verdict(1), { fits: false, problem: "at #: no object" });
  const state = story.nextRun().user("And now?").log({ finish: true });
  const { error, summary, turns } = replyBody(state, rules({}, { outputSchema: { type: "object" } }));
  expect({ error, summary, turns }).toEqual({ error: undefined, summary: "(no summary)", turns: 0 });
});
