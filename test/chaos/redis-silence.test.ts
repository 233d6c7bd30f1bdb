/**
 * Guarantee: a worker notices a Redis that it cannot reach any more within ten seconds, also when no connection ends, and
 * takes work again by itself. `TROUBLE=long`: a black hole of 60 s, and refusals of 8, 20 and 60 s.
 */
import { beforeAll, test } from "vitest";
import { endures, enduresAndTells, type Place } from "./outage.ts";
import { openTroubledStage } from "./troubled-runs.ts";

const LONG = process.env.TROUBLE === "long";
const REFUSALS_MS = LONG ? [2_000, 8_000, 20_000, 60_000] : [2_000];
const BLACK_HOLE_MS = LONG ? 60_000 : 6_000;

let place: Place;

beforeAll(async () => {
  const stage = await openTroubledStage();
  place = { stage, worker: await stage.commandLineWorker() };
});

for (const ms of REFUSALS_MS) {
  test(`connections are refused for ${ms} ms`, { timeout: ms + 120_000 }, async () => {
    const { proxy } = place.stage;
    const fault = { begin: () => proxy.refuse(), end: () => proxy.heal() };
    await enduresAndTells(place, `refused for ${ms} ms`, fault, ms);
  });
}

test(`everything vanishes in a black hole for ${BLACK_HOLE_MS} ms`, {
  timeout: BLACK_HOLE_MS + 120_000,
}, async () => {
  const { proxy } = place.stage;
  const fault = { begin: () => proxy.blackhole(), end: () => proxy.heal() };
  await enduresAndTells(place, `black hole for ${BLACK_HOLE_MS} ms`, fault, BLACK_HOLE_MS);
});

test("the other side of every connection is gone without a word", async () => {
  const { proxy } = place.stage;
  await endures(place, "stranded", { begin: () => proxy.strand(), end: () => {} }, 0);
});
