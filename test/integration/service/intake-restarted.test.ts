/** Guarantee: an intake that is started while it stops takes requests afterwards, and the last call decides. */
import { expect, test } from "vitest";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { refusal } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

test("an intake that is started during its stop takes entries again; stopped once more, it does not start", async () => {
  const { redis, keys, url: redisUrl, prefix, client } = await openStage({ timing: LONG_TIMING });
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl, prefix, client: client(), logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
  const stopped = intake.stop();
  await intake.start();
  await stopped;
  await redis.xadd(keys.intake, "*", "parent_id", "shell", "name", "Again", "prompt", "go");
  await until(async () => (await redis.xlen(keys.intake)) === 0);

  void intake.stop();
  const restarted = expect(intake.start()).rejects.toMatchObject(refusal("closed"));
  await intake.stop();
  await restarted;
});
