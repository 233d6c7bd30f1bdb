/** What `tasks/update` leaves behind if Redis fails, or an answer is refused, before all questions of the task are answered. */
import { expect, test } from "vitest";
import { contextOf } from "../../../src/producer/parent.ts";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { updateTask } from "../../../src/service/mcp/task.ts";
import { startApi } from "../../helpers/api.ts";
import { type CommandFault, openFaultLine } from "../../helpers/fault-line.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { started } from "../../helpers/parents.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { isCallOf } from "../../helpers/redis-commands.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const MESSAGE_MAX_BYTES = 256 * 1_024;

const question = (text: string) =>
  ({ type: "tool_use", name: "ask_parent", input: { question: text } }) as const;
const accept = (answer: string) => ({ action: "accept", content: { answer } }) as const;

/** An agent that waits for two answers, as a task of a server whose answers `decide` may have Redis refuse or lose. */
async function twoQuestions(decide: (isAnswer: boolean) => CommandFault) {
  const stage = await openStage({
    scenario: {
      turns: [
        { content: [question("Which colour?"), question("Which size?")] },
        { content: [{ type: "text", text: "done" }] },
      ],
    },
  });
  await stage.startWorker();
  const isAnswer = isCallOf("answer");
  const line = await openFaultLine(Number(new URL(redisUrl()).port), (words) => decide(isAnswer(words)));
  const api = await startApi({
    client: await started(stage.client({ redisUrl: line })),
    mounts: [mcpMount()],
  });
  const ask = (method: string, params: object) => askMcp(`${api.url}/mcp?parent=planner-7`, method, params);
  const call = { name: "agent", arguments: { prompt: "paint", tool_allowlist: ["ask_parent"] } };
  const taskId = String((await ask("tools/call", call)).result?.taskId);
  const get = async () => (await ask("tasks/get", { taskId })).result;
  const open = async () => Object.keys((await get())?.inputRequests ?? {});
  const keys = await until(async () => {
    const found = await open();
    return found.length === 2 && found;
  });
  const update = (inputResponses: object) => ask("tasks/update", { taskId, inputResponses });
  return { stage, taskId, keys, get, open, update };
}

test("a Redis that fails at the second question does not say that nothing was done, and the same update answers the rest", async () => {
  let answers = 0;
  const { keys, get, open, update } = await twoQuestions((isAnswer) => {
    if (isAnswer) answers += 1;
    return isAnswer && answers === 2 ? "refused" : "passes";
  });
  const [first = "", second = ""] = keys;
  const responses = { [first]: accept("blue"), [second]: accept("big") };
  const { error } = await update(responses);
  expect(error?.message).toMatch(/^Redis did not answer, so it is unknown .* the same call .* is safe/);
  expect(await open()).toEqual([second]);
  expect(await update(responses)).toMatchObject({ result: { resultType: "complete" } });
  await until(async () => (await get())?.status === "completed");
});

test("an answer that cannot be taken is refused before another one is given", async () => {
  const { keys, open, update } = await twoQuestions(() => "passes");
  const [first = "", second = ""] = keys;
  const tooLong = accept("x".repeat(MESSAGE_MAX_BYTES + 1));
  const { error } = await update({ [first]: accept("blue"), [second]: tooLong });
  expect(error?.message).toMatch(/^tasks\/update refused, nothing was done/);
  expect(await open()).toEqual(keys);
});

test("an answer that came too late is refused, and those to the other questions are given", async () => {
  const { stage, taskId, keys, get } = await twoQuestions(() => "passes");
  const [first = "", second = ""] = keys;
  const parent = stage.parent();
  const { agent_id = "" } = (await parent.list())[0] ?? {};
  const context = contextOf(parent);
  let opened = 0;
  const late = {
    ...context,
    async open() {
      opened += 1;
      // The update has read the questions of its task, and answers them next.
      if (opened === 2) await parent.answer(agent_id, "green", { question_id: first });
      return context.open();
    },
  };
  const updated = updateTask(late, taskId, { [first]: accept("blue"), [second]: accept("big") });
  await expect(updated).rejects.toMatchObject({ code: "already_answered", details: { question_id: first } });
  await until(async () => (await get())?.status === "completed");
});
