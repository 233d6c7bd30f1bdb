/** Guarantee: one Redis master that refuses fills no log: a sweeper says each problem once, until it was quiet for a minute. */
import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { createSweeper, type SweeperContext } from "../../../src/worker/sweeper.ts";
import { handClock } from "../../helpers/hand-clock.ts";

const SECOND_MS = 1_000;

test("a check that fails each second is said once, another problem beside it as well, and again after a quiet minute", async () => {
  const said: string[] = [];
  const clock = handClock();
  let problems: readonly string[] = [];
  const store = {
    waitingJob: async ({ uid }: { uid: string }) => {
      throw new Error(uid);
    },
    timing: TIMING,
  };
  const dueOf = (uid: string) => ({
    ...{ member: uid, seenScore: 1, nowMs: 1, seenGrace: "" },
    address: { tenant: "t", parentId: "p", uid },
  });
  const context = {
    deadlines: { due: async () => problems.map(dueOf), move: async () => {} },
    ...{ store, clock, workers: { list: async () => [] } },
    logger: createLogger({ level: "warn", destination: { write: (line: string) => void said.push(line) } }),
  };
  const { tick } = createSweeper(context as unknown as SweeperContext);
  const tickFor = async (seconds: number, failing: readonly string[]) => {
    problems = failing;
    for (let n = 0; n < seconds; n += 1) {
      await tick();
      clock.advance(SECOND_MS);
    }
    return said.splice(0).map((line) => JSON.parse(line).problem);
  };
  expect(await tickFor(100, ["READONLY"])).toEqual(["READONLY"]);
  expect(await tickFor(30, [])).toEqual([]);
  expect(await tickFor(2, ["READONLY", "NOREPLICAS"])).toEqual(["NOREPLICAS"]);
  expect(await tickFor(60, [])).toEqual([]);
  expect(await tickFor(2, ["READONLY"])).toEqual(["READONLY"]);
});
