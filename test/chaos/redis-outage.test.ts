/**
 * Guarantee: a worker outlives its Redis in the same process: runs in flight succeed once, nothing committed is bought
 * again, it says that it is not ready meanwhile, and takes work again by itself. `TROUBLE=long`: outages of 20 and 60 s.
 */
import { beforeAll, test } from "vitest";
import { enduresAndTells, type Place } from "./outage.ts";
import { openTroubledStage } from "./troubled-runs.ts";

const OUTAGES_MS = process.env.TROUBLE === "long" ? [2_000, 8_000, 20_000, 60_000] : [2_000, 8_000];

let place: Place;

beforeAll(async () => {
  const stage = await openTroubledStage();
  place = { stage, worker: await stage.commandLineWorker() };
});

for (const ms of OUTAGES_MS) {
  test(`Redis is killed and comes back after ${ms} ms`, { timeout: ms + 120_000 }, async () => {
    const { server } = place.stage;
    await enduresAndTells(
      place,
      `killed for ${ms} ms`,
      { begin: () => server.kill(), end: () => server.start() },
      ms,
    );
  });
}

test("Redis is shut down and started again", async () => {
  const { server } = place.stage;
  const fault = { begin: () => server.kill("SIGTERM"), end: () => server.start() };
  await enduresAndTells(place, "shut down", fault, 1_000);
});
