/** Guarantee: a question that a task has answered is nobody else's any more. */
import { expect, test } from "vitest";
import { latch } from "../../helpers/latch.ts";
import { openParentScene } from "../../helpers/parent-scene.ts";
import { testParent } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";

const ask = { type: "tool_use" as const, name: "ask_parent", input: { question: "Which?" } };
const done = { content: [{ type: "text" as const, text: "done" }] };

test("a question that a task has answered leaves the channel", async () => {
  const { parent, installation } = await openParentScene({
    scenario: { turns: [{ content: [ask] }, done] },
  });
  await parent.task({ prompt: "paint", onQuestion: () => "green" });
  const { replies } = installation.keys.parent({ tenant: "default", parentId: "planner-7" });
  await until(async () => (await installation.redis.xlen(replies)) === 0, { what: "an empty channel" });
});

test("a question that nobody has answered when its default held leaves the channel with the reply", async () => {
  const scenario = {
    turns: [{ content: [{ ...ask, input: { question: "Which?", default: "blue" } }] }, done],
  };
  const { parent, installation } = await openParentScene({ scenario, parent: { answer_within_ms: 50 } });
  const reply = await parent.task({ prompt: "paint", onQuestion: () => new Promise(() => {}) });
  expect(reply).toMatchObject({ status: "succeeded", summary: "done" });
  const { replies } = installation.keys.parent({ tenant: "default", parentId: "planner-7" });
  await until(async () => (await installation.redis.xlen(replies)) === 0, { what: "an empty channel" });
});

test("an answer that comes after another one is no failure of the task", async () => {
  const { parent } = await openParentScene({ scenario: { turns: [{ content: [ask] }, done] } });
  const reply = await parent.task({
    prompt: "paint",
    onQuestion: async ({ agent_id, question_id }) => {
      await parent.answer(agent_id, "blue", { question_id });
      return "green";
    },
  });
  expect(reply).toMatchObject({ status: "succeeded", summary: "done" });
});

test("a question that was put before its task was called again is answered by the second caller", async () => {
  const { client, parent } = await openParentScene({ scenario: { turns: [{ content: [ask] }, done] } });
  // Reads the channel up to its end all the time.
  const reader = parent.replies();
  const heard = reader.next();
  const wish = { prompt: "paint", request_key: "paint-1" };
  const asked = latch();
  const first = testParent(client);
  const unanswered = first.task({
    ...wish,
    onQuestion: () => {
      asked.open();
      return new Promise(() => {});
    },
  });
  await asked.opened;
  await first.stop();
  await expect(unanswered).rejects.toMatchObject({ code: "closed" });
  expect((await heard).value).toMatchObject({ kind: "question" });
  const reply = await parent.task({ ...wish, onQuestion: () => "green" });
  expect(reply).toMatchObject({ status: "succeeded", summary: "done" });
});
