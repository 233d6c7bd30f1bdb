/** Guarantee: a run begins once for its watchers, and who lost it and who goes on with it is told to them and to the operator. */
import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { readTimeline } from "../../../src/shared/redis/events.ts";
import { endLeases } from "../../helpers/leases.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const LINE = { type: "tool_use" as const, name: "note", input: { line: "a", gate: "never" } };
const done = { content: [{ type: "text" as const, text: "done" }] };

test("a run begins once: its timeline and the next worker's log and figures tell who lost it, and who goes on", async () => {
  const installation = await openStage({
    timing: LONG_TIMING,
    scenario: { turns: [{ content: [LINE] }, done] },
  });
  const first = await installation.spawnWorker();
  const agent = await installation.task("work");
  const { redis, keys } = installation;
  await until(async () => (await redis.hkeys(keys.agent(agent).log)).some((key) => key.endsWith("/started")));
  await first.kill();
  await endLeases(installation);
  const lines: Record<string, unknown>[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(JSON.parse(line)) } });
  const second = await installation.startWorker({ logger, metrics: true });
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
  const timeline = (await readTimeline(redis, keys, agent)).flatMap(({ events }) => events);
  expect(timeline.flatMap((event) => ("worker" in event ? [[event.type, event.worker]] : []))).toEqual([
    ["run_started", first.id],
    ["worker_lost", first.id],
    ["run_continued", second.id],
  ]);
  const [lost, ...more] = lines.filter(({ lost_worker }) => lost_worker !== undefined);
  expect(lost).toMatchObject({ level: 40, uid: agent.uid, run: 1, lost_worker: first.id });
  expect(more).toEqual([]);
  expect((await second.metrics())?.text).toMatch(/^subagent_takeovers_total 1$/m);
});
