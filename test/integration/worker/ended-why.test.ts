/** Guarantee: the reply of a run that a sweeper ends as failed says why, beside all that the run has come to. */
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { deadlineMember } from "../../../src/shared/protocol/keys.ts";
import { NOTHING_DONE, progressJson } from "../../../src/shared/protocol/reply.ts";
import { keptReply } from "../../../src/shared/redis/replies.ts";
import { createSweeper } from "../../../src/worker/sweeper.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openStage } from "../../stage/stage.ts";

const DONE = { ...NOTHING_DONE, turns: 2, cost_usd: 0.123_456_789_012_345, tools_called: { glob: 1 } };
const ALERTED = { ...DONE, alerts: [{ kind: "turns" as const, threshold: 1, value: 2 }] };

test.each([
  ["tools_missing", "look_up", { tools_since: 1 }, NOTHING_DONE],
  ["tools_missing", "look_up", { tools_since: 1, progress: progressJson(DONE) }, DONE],
  ["max_age", "waited for an answer", { unanswered_since: 1, progress: progressJson(ALERTED) }, ALERTED],
] as const)("%s: %s", async (stop_reason, why, fields, body) => {
  const stage = await openStage();
  const { store, deadlines, wakes } = stage;
  const agent = await stage.task("Look it up.", { tools: ["look_up"] });
  await stage.redis.hset(stage.keys.agent(agent).record, { deadline: 1, ...fields });
  await stage.redis.zadd(stage.keys.deadlines, 1, deadlineMember(agent));
  const logger = createLogger({ level: "silent" });
  const workers = { list: async () => [] };
  const sweeper = createSweeper({ store, deadlines, wakes, workers, clock: systemClock, logger });
  closeAtEnd(() => sweeper.stop());
  await sweeper.tick();
  const told = { ...body, status: "failed", stop_reason, error: expect.stringContaining(why) };
  expect(await stage.entries(agent)).toMatchObject([told]);
  expect(keptReply(await stage.record(agent))?.entry).toMatchObject({ ...told, summary: expect.any(String) });
});
