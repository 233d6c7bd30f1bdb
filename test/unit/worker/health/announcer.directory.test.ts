/** What a worker's entry in the directory says, and how it is taken out. */
import { expect, test } from "vitest";
import type { Clock } from "../../../../src/shared/clock.ts";
import { createLogger } from "../../../../src/shared/logger.ts";
import { createAnnouncer } from "../../../../src/worker/health/announcer.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const DAY_MS = 86_400_000;
const worker = { id: "w1", host: "h", version: "0.1.0", tools: [], concurrency: 1 };

/** An announcer whose directory answers a withdrawal as `withdraw` does. */
function announcing(withdraw: () => Promise<void>) {
  // Its day began long before the machine's monotonic clock did.
  const clock: Clock = { ...handClock(), now: () => DAY_MS };
  const announced: { now?: number | undefined }[] = [];
  const withdrawn: string[] = [];
  const directory = {
    announce: async (entry: { now?: number | undefined }) => void announced.push(entry),
    withdraw: (id: string) => {
      withdrawn.push(id);
      return withdraw();
    },
    list: async () => [],
    count: async () => 0,
    isAnyLive: async () => false,
  };
  const logger = createLogger({ level: "silent" });
  return { announced, withdrawn, announcer: createAnnouncer(directory, worker, { clock, logger }) };
}

test("an entry has the time of its host's clock, by which a clock that is off is found", async () => {
  const { announced, announcer } = announcing(async () => {});
  await announcer.start();
  expect(announced).toMatchObject([{ now: DAY_MS }]);
  await announcer.stop();
});

test("a worker stops though Redis refuses to take it out of the directory, and asks for that once", async () => {
  const { withdrawn, announcer } = announcing(() => Promise.reject(new Error("READONLY")));
  await announcer.start();
  await announcer.stop();
  await announcer.stop();
  expect(withdrawn).toEqual(["w1"]);
});
