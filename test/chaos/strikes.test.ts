import { expect, test } from "vitest";
import { createPace, type PlannedStrike } from "./fault-schedule.ts";
import { type Scene, strikeAll } from "./strikes.ts";

const planned: PlannedStrike = { kind: "refuse", dueAt: 0, aim: 0, delayMs: 0, outage: 0, jump: 0 };

/** Of two workers the first is busy with one run; `refuse` is what its proxy does. There is work for so many choices. */
function sceneWith(refuse: (run: { status: string }) => void, choices = 1) {
  const run = { status: "running", epoch: 1, worker: "w0", steps: 1, crashesWithoutProgress: 0 };
  const seat = (number: number) => ({
    number,
    up: true,
    worker: { id: `w${number}`, pid: number },
    proxy: { refuse: () => refuse(run), heal: () => Object.assign(run, { status: "running" }) },
  });
  let chosen = 0;
  return {
    fleet: { seats: [seat(0), seat(1)] },
    chronicle: {
      heldBy: (worker: string) => (worker === run.worker && run.status === "running" ? ["sa-1"] : []),
      agents: new Map([["sa-1", run]]),
      caughtUp: async () => {},
    },
    pace: createPace(1, 1, []),
    leaseMs: 1,
    isOver: () => chosen++ >= choices,
  } as unknown as Scene;
}

test("a fault that failed while others were still to come fails all of them", async () => {
  const scene = sceneWith(() => {
    throw new Error("nobody took over");
  });
  await expect(strikeAll(scene, [planned, planned, planned])).rejects.toThrow("nobody took over");
});

test("a fault that finds the worker it chose idle strikes again, and one that hit a run does not", async () => {
  let strikes = 0;
  const scene = sceneWith((run) => {
    strikes += 1;
    if (strikes === 1) run.status = "succeeded";
    // What it holds is read at once; only then does it come to an end.
    else setTimeout(() => Object.assign(run, { status: "succeeded" }));
  }, 3);
  const faults = await strikeAll(scene, [planned]);
  expect(faults.map(({ hit, isRepeated }) => [hit.length, isRepeated ?? false])).toEqual([
    [0, true],
    [1, false],
  ]);
});
