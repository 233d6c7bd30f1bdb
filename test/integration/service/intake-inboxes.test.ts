/** Messages of the intake to one full inbox wait in its line; those to another agent of the same parent are not behind them. */
import { expect, test } from "vitest";
import { createJobTaker } from "../../../src/service/intake/jobs.ts";
import { createIntakeQuota } from "../../../src/service/intake/quota.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { INBOX_MAX_MESSAGES } from "../../../src/shared/protocol/message.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

test("each agent has a line of its own", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  const parent = stage.parent("shell");
  for (const name of ["one", "two"]) {
    await parent.spawn({ name, keep_alive: true });
    for (let n = 0; n < INBOX_MAX_MESSAGES; n++) await parent.send(name, "go on");
  }
  const [client, logger] = [stage.client(), createLogger({ level: "silent" })];
  const quota = createIntakeQuota(client, handClock(), logger);
  const { take } = createJobTaker({ client, quota, logger });
  const delayOf = async (id: string, agent_id: string) => {
    const step = await take({
      id,
      data: { parent_id: "shell", agent_id, prompt: "go on", reply: "channel" },
    });
    return step.status === "later" ? step.delayMs : step;
  };
  expect(await delayOf("1", "one")).toBe(600);
  expect(await delayOf("2", "one")).toBe(700);
  expect(await delayOf("3", "two")).toBe(600);
});
