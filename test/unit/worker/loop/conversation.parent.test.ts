/** Guarantee: the words with which a run began outlive every summary, and what the parent says later stands for itself. */
import { expect, test } from "vitest";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import { asked, call, conversation, text, used } from "./story.ts";

const LONG = "a long word ".repeat(50);

test("a message of the parent in the middle of a run does not take the place of the task beside a summary", () => {
  const story = asked("The task.");
  for (let k = 1; k <= 6; k++) {
    if (k === 3) story.user("A later word.");
    story.asks(text(`${k} ${LONG}`), call(`c${k}`)).result(`c${k}`, "done");
  }
  story.add(entryKey.compacted(story.n, 9), {
    before: 9,
    summary: "short",
    model: "m",
    usage: used(7),
    cost_usd: 0,
    duration_ms: 1,
  });
  const [head] = conversation(story.log());
  expect(head?.content[0]).toEqual(text("The task."));
  expect(head?.content).toHaveLength(2);
});

test("an answer that does not fit the output schema is not corrected where the parent has something to say", () => {
  const said = (...words: string[]) => {
    const story = asked().model("end_turn", [text("no object")]);
    story.add(entryKey.verdict(1), { fits: false, problem: "at #: no object" });
    if (words.length > 0) story.user(...words);
    return conversation(story.log()).at(-1)?.content;
  };
  expect(JSON.stringify(said())).toContain("at #: no object");
  expect(said("Do something else.")).toEqual([text("Do something else.")]);
});

test("a notice, a correction and the word to go on stand in one message each", () => {
  const times = (story: ReturnType<typeof asked>, words: string) =>
    JSON.stringify(conversation(story.log())).split(words).length - 1;
  const noticed = asked("The task.").notice("Most of the budget is used.").calls("a").calls("b");
  expect(times(noticed, "Most of the budget is used.")).toBe(1);
  const corrected = asked("The task.").model("end_turn", [text("no object")]);
  corrected.add(entryKey.verdict(1), { fits: false, problem: "at #: no object" });
  corrected.model("end_turn", []).model("end_turn", []);
  expect(times(corrected, "at #: no object")).toBe(1);
  const cut = asked("The task.")
    .asks(call("a"))
    .result("a", LONG)
    .model("model_context_window_exceeded", [text("half an")])
    .cleared(1, true)
    .calls("b")
    .calls("c");
  expect(times(cut, "Your last message was cut off")).toBe(1);
});

test("a summary of messages whose results were left out before leaves the others as they are", () => {
  const story = asked("The task.");
  for (let k = 1; k <= 8; k++)
    story.asks(text(`${k} ${LONG}`), call(`c${k}`)).result(`c${k}`, `${k} is ${LONG}`);
  const whole = conversation(story.log());
  story.cleared(5).add(entryKey.compacted(story.n, 11), {
    before: 11,
    summary: "short",
    model: "m",
    usage: used(7),
    cost_usd: 0,
    duration_ms: 1,
  });
  expect(conversation(story.log()).slice(1)).toEqual(whole.slice(11));
});
