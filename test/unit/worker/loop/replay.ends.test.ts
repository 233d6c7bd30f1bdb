/** Guarantee: the end of a replayed run is decided from what it had: without later runs, and with what the log cannot hold. */
import { expect, test } from "vitest";
import { replay } from "../../../../src/worker/loop/replay.ts";
import { asked, rules, type Story, text } from "./story.ts";

const { limits, model } = rules();
const spec = { v: 1 as const, model, limits, keep_alive: true, idle_ms: 1 };

/** The decisions of the story's first run, as words; `ended`: how it ended. */
const ofFirstRun = ({ entries }: Story, ended: "finished_by_parent" | "end_turn") =>
  replay({ run: 1, spec, log: new Map(entries), ended }).map(({ decided, agrees }) => [decided, agrees]);

/** Goes on with a second run, which calls a tool. */
function withSecondRun(story: Story): Story {
  story.run = 2;
  return story
    .user("more")
    .calls("a")
    .model("end_turn", [text("again")]);
}

test("a run that its parent ended before its first answer is replayed alone", () => {
  const story = asked();
  // A message without an answer keeps its number: the next run begins behind it.
  story.n += 2;
  expect(ofFirstRun(withSecondRun(story), "finished_by_parent")).toEqual([
    ["deliver", true],
    ["settle finished_by_parent", true],
  ]);
});

test("a run that ended by itself is replayed alone", () => {
  expect(ofFirstRun(withSecondRun(asked().model("end_turn", [text("done")])), "end_turn")).toEqual([
    ["deliver", true],
    ["call_model", true],
    ["settle end_turn", true],
  ]);
});

test("an end without a repair of its output, though the caps allow one, is decided by what no log holds", () => {
  const story = asked()
    .model("end_turn", [text("prose")])
    .add("1/verdict", { fits: false, problem: "it is not JSON" });
  const decisions = replay({
    run: 1,
    spec: { ...spec, output_schema: { type: "object" } },
    log: new Map(story.entries),
    ended: "invalid_output",
  });
  expect(decisions.at(-1)).toEqual({
    message: 2,
    logged: "settle invalid_output",
    decided: "settle invalid_output",
    agrees: true,
    assumed: "no call was left to repair the output: the time was over, or a budget was spent",
  });
});
