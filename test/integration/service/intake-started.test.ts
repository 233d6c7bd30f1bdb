import { test } from "vitest";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { testClient } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("an intake that has started has loaded all that a request needs: the package's files may be replaced from then on", async () => {
  const { redis, url: redisUrl, prefix } = await openStage({ redis: "own" });
  const intake = createIntake({
    ...{ redisUrl, prefix, client: testClient({ redisUrl, prefix }) },
    logger: createLogger({ level: "silent" }),
  });
  closeAtEnd(() => intake.stop());
  await intake.start();
  const clients = async () => String(await redis.client("LIST"));
  await until(async () => (await clients()).includes("name=subagent-queue-producer"), { timeoutMs: 20_000 });
});
