/** Guarantee: a worker notices each announcement that Redis did not take in time, because then those of other workers expire. */
import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { createAnnouncer } from "../../../../src/worker/health/announcer.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const EVERY_MS = 3_000;
const worker = { id: "w1", host: "h", version: "0.1.0", tools: [], concurrency: 1 };

test("an announcement that is refused, and each one that is due while Redis does not answer, are missed", async () => {
  const clock = handClock();
  const answers: (() => Promise<void>)[] = [];
  const directory = {
    announce: () => answers.shift()?.() ?? Promise.resolve(),
    withdraw: async () => {},
    list: async () => [],
    count: async () => 0,
    isAnyLive: async () => false,
  };
  let missed = 0;
  const logger = createLogger({ level: "silent" });
  const onMissed = () => {
    missed += 1;
  };
  const announcer = createAnnouncer(directory, worker, { clock, logger, onMissed });
  const passes = async (ms: number) => {
    clock.advance(ms);
    await new Promise(setImmediate);
    return missed;
  };
  await announcer.start();
  expect(await passes(EVERY_MS)).toBe(0);
  answers.push(() => Promise.reject(new Error("NOREPLICAS Not enough good replicas to write.")));
  expect(await passes(EVERY_MS)).toBe(1);
  let answer = () => {};
  answers.push(
    () =>
      new Promise((resolve) => {
        answer = resolve;
      }),
  );
  expect(await passes(3 * EVERY_MS)).toBe(3);
  answer();
  expect(await passes(0)).toBe(3);
  expect(await passes(EVERY_MS)).toBe(3);
  expect(await passes(EVERY_MS)).toBe(3);
  await announcer.stop();
});
