/** Guarantee: an intake that is stopped while it starts takes nothing, and its start says so. */
import { expect, test } from "vitest";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { refusal } from "../../helpers/parents.ts";
import { openStage } from "../../stage/stage.ts";

test("a start that a stop overtakes is refused", async () => {
  const { url: redisUrl, prefix, client } = await openStage();
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl, prefix, client: client(), logger });
  closeAtEnd(() => intake.stop());
  const started = expect(intake.start()).rejects.toMatchObject(refusal("closed"));
  await intake.stop();
  await started;
});
