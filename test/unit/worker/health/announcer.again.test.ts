import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { WORKER_TTL_MS } from "../../../../src/shared/protocol/worker.ts";
import { createAnnouncer } from "../../../../src/worker/health/announcer.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

test("an announcer that is started twice announces as often as one that is started once", async () => {
  const clock = handClock();
  let announced = 0;
  const directory = {
    announce: async () => void announced++,
    withdraw: async () => {},
    list: async () => [],
    count: async () => 0,
    isAnyLive: async () => false,
  };
  const worker = { id: "w1", host: "h", version: "0.1.0", tools: [], concurrency: 1 };
  const announcer = createAnnouncer(directory, worker, { clock, logger: createLogger({ level: "silent" }) });
  await Promise.all([announcer.start(), announcer.start()]);
  expect([announced, clock.pending]).toEqual([1, 1]);
  clock.advance(WORKER_TTL_MS / 10);
  expect(announced).toBe(2);
  await announcer.stop();
  expect(clock.pending).toBe(0);
});
