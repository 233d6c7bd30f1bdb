import { expect, test } from "vitest";
import { createPace, type PlannedStrike } from "./fault-schedule.ts";
import { type Scene, strikeAll } from "./strikes.ts";

const planned: PlannedStrike = { kind: "refuse", dueAt: 0, aim: 0, delayMs: 0, outage: 0, jump: 0 };

/** One busy worker among two; `refuse` is what its proxy does. */
function sceneWith(refuse: () => void) {
  const seat = (number: number) => ({
    number,
    up: true,
    worker: { id: `w${number}`, pid: number },
    proxy: { refuse },
  });
  const run = { status: "running", epoch: 1, worker: "w0", steps: 1, barrenDeaths: 0 };
  let chosen = 0;
  return {
    fleet: { seats: [seat(0), seat(1)] },
    chronicle: {
      heldBy: (worker: string) => (worker === "w0" ? ["sa-1"] : []),
      agents: new Map([["sa-1", run]]),
    },
    pace: createPace(1, 1, []),
    leaseMs: 1,
    isOver: () => chosen++ > 0,
  } as unknown as Scene;
}

test("a fault that failed while others were still to come fails all of them", async () => {
  const scene = sceneWith(() => {
    throw new Error("nobody took over");
  });
  await expect(strikeAll(scene, [planned, planned, planned])).rejects.toThrow("nobody took over");
});
