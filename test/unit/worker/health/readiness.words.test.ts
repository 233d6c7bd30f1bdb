/** What readiness says, and when the log does. */
import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { createReadinessWatch } from "../../../../src/worker/health/readiness.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

function scene() {
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
  const state = {
    idle: undefined as string | undefined,
    alive: true,
    refusal: undefined as string | undefined,
  };
  const watch = createReadinessWatch({
    idle: () => state.idle,
    isRedisAlive: () => state.alive,
    refusal: () => state.refusal,
    server: () => [],
    others: () => [],
    probes: [],
    clock: handClock(),
    logger,
  });
  closeAtEnd(() => watch.stop());
  return { lines, state, watch };
}

test("a Redis that refuses the connection is away in its own words, not in those of one that is silent", async () => {
  const { state, watch } = scene();
  state.alive = false;
  state.refusal = "Redis refuses the password";
  expect(await watch.now()).toMatchObject({ redis: "away", reasons: ["Redis refuses the password"] });
});

test("a worker that was ready and stops is no trouble to be logged", async () => {
  const { lines, state, watch } = scene();
  await watch.now();
  state.idle = "the worker is stopping";
  expect(await watch.now()).toMatchObject({ ready: false });
  expect(lines).toEqual([]);
});
