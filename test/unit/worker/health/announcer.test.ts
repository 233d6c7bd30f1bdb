import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import type { WorkerDirectory } from "../../../../src/shared/redis/workers.ts";
import { createAnnouncer } from "../../../../src/worker/health/announcer.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const worker = {
  id: "w1",
  host: "h",
  version: "0.1.0",
  tools: [],
  concurrency: 1,
};

/** A directory whose answers are the test's to give. */
function announcing() {
  const clock = handClock();
  const asked: Answer[] = [];
  const directory: WorkerDirectory = {
    announce: () =>
      new Promise((resolve, reject) => {
        asked.push({ resolve, reject });
      }),
    withdraw: async () => {},
    list: async () => [],
    count: async () => 0,
    isAnyLive: async () => false,
  };
  const announcer = createAnnouncer(directory, worker, { clock, logger: createLogger({ level: "silent" }) });
  return { clock, asked, announcer };
}

interface Answer {
  resolve(): void;
  reject(reason: unknown): void;
}

test("while Redis does not answer, announcements do not pile up; afterwards they go on", async () => {
  const { clock, asked, announcer } = announcing();
  announcer.start();
  clock.advance(3_600_000);
  expect(asked).toHaveLength(1);
  asked[0]?.resolve();
  await Promise.resolve();
  clock.advance(3_000);
  expect(asked).toHaveLength(2);
  await announcer.stop();
  expect(clock.pending).toBe(0);
});

test.for(["taken", "refused"] as const)(
  "it has started when Redis has answered, here with %s",
  async (how) => {
    const { asked, announcer } = announcing();
    let hasStarted = false;
    const started = announcer.start().then(() => {
      hasStarted = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(hasStarted).toBe(false);
    if (how === "taken") asked[0]?.resolve();
    else asked[0]?.reject(new Error("READONLY"));
    await started;
    expect(asked).toHaveLength(1);
    await announcer.stop();
  },
);

test("a refusal stands until an announcement is taken", async () => {
  const { clock, asked, announcer } = announcing();
  announcer.start();
  asked[0]?.reject(new Error("READONLY"));
  await Promise.resolve();
  expect(announcer.refusal).toBe("READONLY");
  clock.advance(3_000);
  asked[1]?.resolve();
  await Promise.resolve();
  expect(announcer.refusal).toBeUndefined();
  await announcer.stop();
});
