/** Guarantee: of several sweepers that end one run at once, one counts it; a worker's metrics have what its sweeper ended. */
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { deadlineMember } from "../../../src/shared/protocol/keys.ts";
import { createSweeper } from "../../../src/worker/sweeper.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, openStage, type Stage } from "../../stage/stage.ts";

/** Makes an agent due whose message waits for too long. */
async function makeTooOld({ redis, keys }: Stage, agent: Agent): Promise<void> {
  await redis.hset(keys.agent(agent).record, { deadline: 1, unanswered_since: 1 });
  await redis.zadd(keys.deadlines, 1, deadlineMember(agent));
}

test("three sweepers end the same runs at the same time: each run is counted by one, an idle agent by none", async () => {
  const stage = await openStage();
  const agents = await Promise.all([1, 2, 3, 4].map((n) => stage.task(`work ${n}`)));
  const idle = await stage.spawn({ idle_ms: 1 });
  await Promise.all([...agents, idle].map((agent) => makeTooOld(stage, agent)));
  const { redis, keys } = stage;
  await until(async () => (await redis.exists(keys.agent(idle).life)) === 0);
  const counted: string[] = [];
  const { store, deadlines, wakes } = stage;
  const sweepers = [1, 2, 3].map(() =>
    createSweeper({
      ...{ store, deadlines, wakes, workers: { list: async () => [] }, clock: systemClock },
      logger: createLogger({ level: "silent" }),
      metrics: { ended: (status, reason) => void counted.push(`${status} ${reason}`) },
    }),
  );
  await Promise.all(sweepers.map((sweeper) => sweeper.tick()));
  const ended = await Promise.all([...agents, idle].map((agent) => stage.record(agent)));
  expect(ended.map(({ status }) => status)).toEqual(Array(5).fill("ended"));
  expect(counted).toEqual(Array(4).fill("failed max_age"));
});

test("the metrics of a worker count the run that its sweeper ends", async () => {
  const stage = await openStage();
  const agent = await stage.task("Look it up.", { tools: ["look_up"] });
  await makeTooOld(stage, agent);
  const worker = await stage.startWorker({ metrics: true });
  const text = await until(async () => {
    const scrape = (await worker.metrics())?.text;
    return scrape?.includes("stop_reason=") && scrape;
  });
  expect(text).toContain('subagent_runs_total{status="failed",stop_reason="max_age"} 1');
});
