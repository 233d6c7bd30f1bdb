/** Guarantee: `answer` says what its agent does now. */
import { expect, test } from "vitest";
import { programOn } from "../helpers/program-on-stage.ts";
import { until } from "../helpers/until.ts";
import { openStage } from "../stage/stage.ts";

const question = (text: string) => ({
  type: "tool_use" as const,
  name: "ask_parent",
  input: { question: text },
});

test("an agent that was answered waits for its other answer, goes on, or has ended since", async () => {
  const asks = { content: [question("Which colour?"), question("Which size?")] };
  const stage = await openStage({
    scenario: { turns: [asks, { content: [{ type: "text", text: "Done." }] }] },
  });
  await stage.startWorker();
  const program = programOn(stage);
  const parent = stage.parent("parent-0");
  await parent.spawn({ name: "w" });
  await parent.send("w", "paint");
  const [first = "", second = ""] = await until(async () => {
    const { questions } = await parent.get("w");
    return questions?.length === 2 && questions.map(({ question_id }) => question_id);
  });
  const answer = async (text: string, id: string) =>
    (await program("answer", "w", text, "--question", id)).stdout;
  expect(await answer("blue", first)).toEqual(["Answered w: it waits for another answer."]);
  expect(await answer("big", second)).toEqual(["Answered w: it goes on."]);
  await until(async () => (await parent.get("w")).status === "ended");
  expect(await answer("big", second)).toEqual(["Answered w: it has ended since."]);
});
