import { expect, it } from "vitest";
import { askParent } from "../../../../src/offline/rules/ask-parent.ts";

const ask = (text: string, offered = ["ask_parent"]) => ({
  text,
  steps: [],
  offered: new Set(offered),
  places: ["."],
});
const CALL = { name: "ask_parent", input: { question: "Which city?" } };

it.each([
  ["Ask your parent: Which city? Write the answer to city.txt", "Which city?"],
  ["First ask your parent which city to take. Then go on.", "which city to take"],
  ["ask your parent – may I?", "may I?"],
])("asks what “%s” wants to know", (text, question) => {
  expect(askParent.matches(text)).toBe(true);
  expect(askParent.next(ask(text))).toMatchObject({ calls: [{ name: "ask_parent", input: { question } }] });
});

it("leaves other requests alone", () => {
  expect(askParent.matches("What would your parent ask?")).toBe(false);
});

it("hands the answer on, says that there was none, and says that it cannot ask", () => {
  const task = ask("Ask your parent: Which city?");
  const told = (output: string, failed: boolean) => ({ ...task, steps: [{ ...CALL, output, failed }] });
  expect(askParent.next(told("Zürich", false))).toEqual({ kind: "answer", text: "Zürich" });
  expect(askParent.next(told("no.", true))).toEqual({
    kind: "answer",
    text: "I got no answer: ask_parent failed: no.",
  });
  expect(askParent.next(ask(task.text, []))).toMatchObject({ text: expect.stringMatching(/could not ask/) });
});
