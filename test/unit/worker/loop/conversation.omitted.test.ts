/** Guarantee: what a request omits is counted as what it is, and takes nothing along that it does not have to. */
import { expect, test } from "vitest";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import { makeRoom } from "../../../../src/worker/loop/caps.ts";
import { asked, call, conversation, rules, type Story, text, used } from "./story.ts";

const LONG = "a long word ".repeat(50);

/** A run of turns whose results are `results`. */
function turns(...results: string[]): Story {
  const story = asked();
  for (const [k, result] of results.entries())
    story.asks(text(`${k} ${LONG}`), call(`c${k}`)).result(`c${k}`, result);
  return story;
}

const sent = (story: Story) => story.log().conversation.request();

test("what can be omitted is said to be as long as what the next request is shorter by", () => {
  const story = turns(LONG, "short", LONG, LONG, LONG, LONG);
  for (const keep of [3, 1, 0]) {
    const { through, chars } = story.log().conversation.clearable(keep) ?? { through: 0, chars: 0 };
    const shorter = turns(LONG, "short", LONG, LONG, LONG, LONG).cleared(through);
    expect(sent(story).messages.length - sent(shorter).messages.length).toBe(chars);
  }
});

test("of the results behind an omission only those that were omitted make the next prompt shorter", () => {
  const story = turns(LONG, LONG, LONG, LONG);
  const { chars = 0 } = story.log().conversation.clearable(3) ?? {};
  const added = (log: Story) => log.log().conversation.addedTokens();
  const whole = added(story);
  expect(added(story.cleared(1))).toBe(whole - chars / 4);
});

test("the mark of the prompt cache stays where only results are omitted that were not sent yet", () => {
  const { cachedLength } = sent(turns("short", "short", LONG));
  expect(cachedLength).toBeGreaterThan(0);
  expect(sent(turns("short", "short", LONG).cleared(5)).cachedLength).toBe(cachedLength);
});

test("results of a run are omitted also behind a message that got no answer", () => {
  const story = turns(LONG)
    .model("end_turn", [text("done")])
    .nextRun()
    .user("Unheard.");
  story.nextRun(story.n + 2).user("And now?");
  const { through = 0 } = story.log().conversation.clearable(0) ?? {};
  const said = JSON.stringify(conversation(story.cleared(through).log()));
  expect(said).toContain("Left out to make room");
  expect(said).toContain("Unheard.");
});

test("a summary of less than a tenth of the conversation is not bought", () => {
  const story = (task: string) =>
    asked(task).asks(text(LONG), call("a")).result("a").asks(call("b")).result("b");
  expect(makeRoom(story("The task.").log(), rules())).toMatchObject({ do: "call_model", compactBefore: 3 });
  expect(makeRoom(story(LONG.repeat(20)).log(), rules())).toBeUndefined();
});

test("a summary of what began with blank words alone stands for itself", () => {
  const story = asked(" ").calls("a").calls("b");
  const price = { usage: used(1), cost_usd: 0, duration_ms: 1 };
  story.add(entryKey.compacted(story.n, 3), { before: 3, summary: "short", model: "m", ...price });
  const [head] = conversation(story.log());
  expect(head?.content.map((block) => block.text)).toEqual([expect.stringContaining("short")]);
});

test("a final call asks for no correction of what does not fit the output schema", () => {
  const story = asked().model("end_turn", [text("no object")]);
  story.add(entryKey.verdict(1), { fits: false, problem: "at #: no object" });
  expect(JSON.stringify(conversation(story.log()))).toContain("at #: no object");
  const last = JSON.stringify(conversation(story.log(), "max_turns"));
  expect(last).toContain("This is your last turn.");
  expect(last).not.toContain("at #: no object");
});

test("a final call for a cause that this version does not name is the last turn", () => {
  const story = asked().model("end_turn", [text("so far")], { hand_back: "worker_lost" });
  expect(conversation(story.log())[0]?.content.at(-1)?.text).toMatch(/^This is your last turn\. Do not call/);
});
