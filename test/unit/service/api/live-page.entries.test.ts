/** What a card of the live page says of an entry of a channel. */
import { expect, test } from "vitest";
import { entryFacts } from "../../../../web/view.js";

test("a question says until when it can be answered only while its agent waits for it, as `replies` does", () => {
  const question = {
    ...{ kind: "question", agent_id: "asker", question_id: "1/a", created_at: new Date().toISOString() },
    ...{ answer_by: "2026-11-30T20:11:01.093Z", default_answer: "no" },
  };
  const asker = { agent_id: "asker", questions: [{ question_id: "1/a" }] };
  expect(entryFacts(question, [{ agent_id: "other" }, asker])).toBe(
    "answer by 2026-11-30 20:11 UTC · by default: no · just now",
  );
  expect(entryFacts(question, [{ ...asker, questions: [{ question_id: "1/b" }] }])).toBe(
    "answered · just now",
  );
  expect(entryFacts(question, [{ agent_id: "asker" }])).toBe("answered · just now");
  expect(entryFacts(question, [])).toBe("over · just now");
});
