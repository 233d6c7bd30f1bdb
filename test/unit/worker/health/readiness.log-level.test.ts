import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { createReadinessWatch } from "../../../../src/worker/health/readiness.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

test("a worker that is not ready is a warning, and one that is ready again is none", async () => {
  const clock = handClock();
  const lines: { level: number; msg: string }[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(JSON.parse(line)) } });
  let others: string[] = [];
  const watch = createReadinessWatch({
    idle: () => undefined,
    isRedisAlive: () => true,
    refusal: () => undefined,
    server: () => [],
    others: () => others,
    probes: [],
    clock,
    logger,
  });
  closeAtEnd(() => watch.stop());
  for (const now of [[], ["no wakes are taken"], []]) {
    others = now;
    await watch.now();
  }
  expect(lines).toMatchObject([
    { level: 40, msg: "Not ready" },
    { level: 30, msg: "Ready again" },
  ]);
});
