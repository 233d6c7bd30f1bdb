/** Guarantee: the timeline tells how a run begins in a few words, however long its message is. */
import { expect, test } from "vitest";
import { PROMPT_KEPT_CHARS } from "../../../src/shared/protocol/reply.ts";
import { readTimeline } from "../../../src/shared/redis/events.ts";
import { openStage } from "../../stage/stage.ts";

test("of a long message the timeline has the beginning", async () => {
  const stage = await openStage({ scenario: { turns: [{ content: [{ type: "text", text: "done" }] }] } });
  await stage.startWorker();
  const prompt = `begin ${"work ".repeat(20_000)}`;
  const agent = await stage.task(prompt);
  await stage.reply(agent);
  const timeline = (await readTimeline(stage.redis, stage.keys, agent)).flatMap(({ events }) => events);
  const [begun] = timeline.filter(({ type }) => type === "run_started");
  const told = begun && "prompt" in begun ? String(begun.prompt) : "";
  expect(told).toMatch(/^begin work work/);
  expect(told.length).toBeLessThanOrEqual(PROMPT_KEPT_CHARS + 1);
});
