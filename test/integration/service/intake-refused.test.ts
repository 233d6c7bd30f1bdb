/** Where a refused job of the intake is told: its sender waits for the job, or reads the channel, and is told once. */
import { expect, test } from "vitest";
import { createJobTaker } from "../../../src/service/intake/jobs.ts";
import { createIntakeQuota } from "../../../src/service/intake/quota.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { openStage } from "../../stage/stage.ts";

test("a job whose reply is returned fails alone, one whose reply goes to the channel is told there", async () => {
  const stage = await openStage();
  const [client, logger] = [stage.client(), createLogger({ level: "silent" })];
  const parent = stage.parent("shell");
  const quota = createIntakeQuota(client, systemClock, logger);
  const { take } = createJobTaker({ client, quota, logger });
  const data = { parent_id: "shell", prompt: "go", colour: "red" };
  expect(await take({ id: "1", data })).toMatchObject({
    status: "refused",
    error: { code: "invalid_input" },
  });
  expect((await parent.newReplies()).entries).toEqual([]);
  expect(await take({ id: "2", data: { ...data, reply: "channel" } })).toMatchObject({ status: "refused" });
  expect((await parent.newReplies()).entries).toMatchObject([{ kind: "ended", stop_reason: "refused" }]);
});
