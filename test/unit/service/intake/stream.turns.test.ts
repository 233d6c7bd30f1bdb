/** Guarantee: entries that are read together keep the runs of their process waiting for some ms, whatever each takes to read. */
import { expect, test } from "vitest";
import { createClient } from "../../../../src/producer/client.ts";
import { createIntakeQuota } from "../../../../src/service/intake/quota.ts";
import { createStreamReader } from "../../../../src/service/intake/stream.ts";
import { createLogger } from "../../../../src/shared/logger.ts";
import type { IntakeEntry, IntakeStream } from "../../../../src/shared/redis/intake-stream.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { until } from "../../../helpers/until.ts";

const logger = createLogger({ level: "silent" });

/** Numbers the turns of the event loop from now on. */
function turnCounter(): () => number {
  let turn = 0;
  let next = setImmediate(function count() {
    turn += 1;
    next = setImmediate(count);
  });
  closeAtEnd(() => clearImmediate(next));
  return () => turn;
}

/** Reads eight entries at once, each of which takes `eachMs` to read; returns the turn in which each was refused. */
async function turnsOf(eachMs: number): Promise<number[]> {
  const clock = handClock();
  const turn = turnCounter();
  const turns: number[] = [];
  let unread: IntakeEntry[] = Array.from({ length: 8 }, (_, i) => ({
    id: `1-${i}`,
    get flat() {
      clock.advance(eachMs);
      return ["prompt", "of no parent"];
    },
    deliveries: 1,
  }));
  const stream: IntakeStream = {
    async claim() {
      const entries = unread;
      unread = [];
      return entries;
    },
    read: () => until(() => stopped && []),
    setAside: async () => void turns.push(turn()),
    ...{ done: async () => {}, keep: async () => {}, leave: async () => {} },
  };
  let stopped = false;
  const client = createClient({ redisUrl: "redis://127.0.0.1:1" });
  const quota = createIntakeQuota(client, clock, logger);
  const reader = createStreamReader({ stream, client, quota, logger, clock });
  reader.start();
  await until(() => turns.length === 8);
  stopped = true;
  await reader.stop();
  return turns;
}

test("entries that take long to read have a turn of the runs between any two of them", async () => {
  expect(new Set(await turnsOf(10)).size).toBe(8);
});

test("entries that are read in no time share a turn: their commands leave together", async () => {
  expect(new Set(await turnsOf(0)).size).toBe(1);
});
