/** Guarantee: a run whose conversation has become long leaves old tool results out of its requests, and goes on. */
import { expect, test } from "vitest";
import { z } from "zod";
import type { Scenario } from "../../../src/offline/server.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { openStage } from "../../stage/stage.ts";

const PAGE = "word ".repeat(30_000 / 5);
const TOO_LONG = { status: 400, message: "prompt is too long: 210000 tokens > 200000 maximum" };
type Turn = Extract<Scenario, { turns: unknown }>["turns"][number];

const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
const turnPage = (number: number): Turn => ({
  content: [{ type: "tool_use", id: `toolu_${number}`, name: "page", input: { number } }],
});

async function runOf(turns: Turn[]) {
  const stage = await openStage({ scenario: { turns } });
  const { model, heads } = recordingModel(stage.offline.url);
  const page = defineTool({
    name: "page",
    description: "One page.",
    input: z.object({ number: z.int() }),
    run: async ({ number }) => `page ${number}: ${PAGE}`,
  });
  await stage.startWorker({ model, tools: [page] });
  const parent = stage.parent("planner-7", { model: "offline-1", keep_alive: true });
  const { agent_id } = await parent.spawn({ name: "reader" });
  await parent.send(agent_id, "work");
  const [reply] = await parent.waitAll([agent_id]);
  const uid = reply?.reply_id.split(".")[0] ?? "";
  const log = await stage.redis.hgetall(
    stage.keys.agent({ tenant: "default", parentId: "planner-7", uid }).log,
  );
  const leftOut = heads.map(({ messages }) =>
    [...messages.matchAll(/the result of page \{\\"number\\":(\d)\}/g)].map(([, number]) => Number(number)),
  );
  const shown = heads.map(({ messages }) =>
    [...messages.matchAll(/page (\d): word/g)].map(([, n]) => Number(n)),
  );
  return { reply, log, leftOut, shown, last: heads.at(-1)?.messages ?? "" };
}

test("a request that the provider finds too long is made again without old results; the log keeps them", async () => {
  const { reply, log, leftOut, shown } = await runOf([
    ...[1, 2, 3, 4, 5].map(turnPage),
    { ...say("All read."), failures: [TOO_LONG] },
  ]);
  expect(reply).toMatchObject({
    status: "succeeded",
    stop_reason: "end_turn",
    summary: "All read.",
    turns: 6,
  });
  expect(leftOut.slice(-2)).toEqual([[], [1, 2]]);
  expect(shown.slice(-2)).toEqual([
    [1, 2, 3, 4, 5],
    [3, 4, 5],
  ]);
  expect(log["1/toolu_1/result"]).toContain(PAGE);
  expect(log["10/cleared/3"]).toBe('{"v":1,"through":3}');
});

test("where that is still too long, the other results are left out as well, and only then the run ends", async () => {
  const { reply, leftOut } = await runOf([
    ...[1, 2, 3, 4].map(turnPage),
    { ...say("never said"), failures: [TOO_LONG, TOO_LONG, TOO_LONG] },
  ]);
  expect(reply).toMatchObject({ status: "partial", stop_reason: "context_window" });
  expect(leftOut.slice(-3)).toEqual([[], [1], [1, 2, 3, 4]]);
});

test("a call that came near to the end of the window is followed by a request without old results", async () => {
  const uncached = { output_tokens: 10, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 };
  const near = { ...uncached, input_tokens: 160_000 };
  const far = { ...uncached, input_tokens: 9_000 };
  const many = [1, 2, 3, 4, 5, 6].map(turnPage);
  const { reply, leftOut } = await runOf([
    ...many.map((turn) => ({ ...turn, usage: far })),
    { ...turnPage(7), usage: near },
    say("All read."),
  ]);
  expect(reply).toMatchObject({ status: "succeeded", summary: "All read." });
  expect(leftOut.slice(-2)).toEqual([[], [1, 2, 3, 4]]);
});

test("an answer that the window cut off is gone on with", async () => {
  const { reply, last } = await runOf([
    turnPage(1),
    { ...say("The first half"), stop_reason: "model_context_window_exceeded" },
    say("and the second."),
  ]);
  expect(reply).toMatchObject({ status: "succeeded", summary: "and the second.", turns: 3 });
  expect(last).toContain("The first half");
  expect(last).toMatch(/Your last message was cut off: .* Go on\."\}\]\}$/);
});

test("without results to leave out the run ends as it came to be", async () => {
  const { reply } = await runOf([{ ...say("Half of it."), stop_reason: "model_context_window_exceeded" }]);
  expect(reply).toMatchObject({ status: "partial", stop_reason: "context_window", summary: "Half of it." });
});
