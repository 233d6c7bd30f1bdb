/** Guarantee: where all workers were away, the first that is back ends no run for want of a tool that another brings. */
import { expect, test } from "vitest";
import { z } from "zod";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { deadlineMember } from "../../../src/shared/protocol/keys.ts";
import { createSweeper } from "../../../src/worker/sweeper.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, openStage, type Stage } from "../../stage/stage.ts";

const scenario = {
  turns: [
    { content: [{ type: "tool_use" as const, name: "look_up", input: {} }] },
    { content: [{ type: "text" as const, text: "found" }] },
  ],
};
const lookUp = defineTool({
  name: "look_up",
  description: "Looks up.",
  input: z.object({}),
  run: async () => "found it",
});

/** A run that has waited for its tool for an hour, by a clock of Redis that has jumped for example, and is due now. */
async function waitedForAnHour(stage: Stage): Promise<Agent> {
  const agent = await stage.spawn({ tools: ["look_up"] });
  await stage.send(agent, "look it up", 3_600_000);
  const [seconds] = await stage.redis.time();
  const hourAgo = Number(seconds) * 1_000 - 3_600_000;
  await stage.redis.hset(stage.keys.agent(agent).record, { tools_since: hourAgo, deadline: hourAgo });
  await stage.redis.zadd(stage.keys.deadlines, hourAgo, deadlineMember(agent));
  return agent;
}

const checkedLater = (stage: Stage, agent: Agent) =>
  until(async () => {
    const [seconds] = await stage.redis.time();
    return (
      Number(await stage.redis.zscore(stage.keys.deadlines, deadlineMember(agent))) >
      (Number(seconds) + 5) * 1_000
    );
  });

test("a sweeper that has just begun leaves such a run to a worker that is still starting", async () => {
  const stage = await openStage({ scenario });
  const agent = await waitedForAnHour(stage);
  await stage.startWorker();
  await checkedLater(stage, agent);
  expect(await stage.record(agent)).toMatchObject({ status: "queued" });
  await stage.startWorker({ tools: [lookUp] });
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded", turns: 2 });
});

test("a single look of a sweeper, as doctor makes it, ends it", async () => {
  const stage = await openStage({ scenario });
  const agent = await waitedForAnHour(stage);
  const { store, deadlines, wakes } = stage;
  const logger = createLogger({ level: "silent" });
  const workers = { list: async () => [] };
  const sweeper = createSweeper({ store, deadlines, wakes, workers, clock: systemClock, logger });
  closeAtEnd(() => sweeper.stop());
  await sweeper.tick();
  expect(await stage.reply(agent)).toMatchObject({ status: "failed", stop_reason: "tools_missing" });
});

test("a sweeper before which Redis' clock jumps forward leaves such a run, too", async () => {
  const stage = await openStage({ scenario });
  const { store, wakes } = stage;
  const logger = createLogger({ level: "silent" });
  const [before, behind] = [await stage.spawn(), await waitedForAnHour(stage)];
  const [seconds] = await stage.redis.time();
  const nowMs = Number(seconds) * 1_000;
  const dueAt = (address: Agent, jumpMs: number) => ({
    member: deadlineMember(address),
    seenScore: nowMs,
    nowMs: nowMs + jumpMs,
    seenGrace: "",
    address,
  });
  const pages = [[dueAt(behind, 3_600_000)], [dueAt(before, 0)]];
  const deadlines = { ...stage.deadlines, due: async () => pages.pop() ?? [] };
  const workers = { list: async () => [] };
  const sweeper = createSweeper({ store, deadlines, wakes, workers, clock: systemClock, logger });
  await sweeper.tick();
  await sweeper.tick();
  expect(await stage.record(behind)).toMatchObject({ status: "queued" });
});
