/** How long a job of a schedule waits for room: until its schedule has come due again, whatever the clock of its host says. */
import { expect, test } from "vitest";
import { createJobTaker } from "../../../src/service/intake/jobs.ts";
import { createIntakeQuota } from "../../../src/service/intake/quota.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import type { JobWait } from "../../../src/shared/redis/intake-jobs.ts";
import { NOTHING_BEGUN } from "../../../src/shared/redis/intake-queue.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const HOUR_MS = 3_600_000;

test.each([
  ["ahead", HOUR_MS],
  ["behind", -HOUR_MS],
])(
  "a host whose clock is an hour %s tries a tick until the next one comes due, and no longer",
  async (_, offMs) => {
    const stage = await openStage({ timing: LONG_TIMING });
    const parent = stage.parent("full");
    for (let i = 0; i < 10; i++) await parent.spawn({ name: "Idle" });
    await parent.schedule({ schedule_id: "minutely", prompt: "say hello", every_ms: 60_000 });
    const name = "default/full/minutely";
    /** As a host with this clock plans the schedule's next time. */
    const plan = (inMs: number) =>
      stage.redis.zadd(stage.keys.repeatedIntake, Date.now() + offMs + inMs, name);
    const client = stage.client();
    const logger = createLogger({ level: "silent" });
    const taker = createJobTaker({ client, quota: createIntakeQuota(client, systemClock, logger), logger });
    closeAtEnd(() => taker.leaveAll());
    const id = `repeat:${name}:${Date.now() + 2 * HOUR_MS}`;
    const take = (wait?: JobWait) =>
      taker.take({ id, data: { parent_id: "full", prompt: "say hello" }, wait });
    await plan(60_000);
    let wait: JobWait | undefined;
    for (let tries = 0; tries < 3; tries++) {
      const end = await take(wait);
      expect(end).toMatchObject({ status: "later", wait: { until_ms: expect.any(Number) } });
      wait = end.status === "later" ? end.wait : undefined;
    }
    await plan(120_000);
    expect(await take(wait)).toEqual({ status: "done", value: NOTHING_BEGUN });
  },
);
