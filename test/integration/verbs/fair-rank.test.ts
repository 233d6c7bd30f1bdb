/** Guarantee: a wake gets its place in the same time, however many parents of its tenant had wakes before. */
import { expect, test } from "vitest";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { loadScripts } from "../../../src/shared/redis/scripts.ts";
import { verbRig } from "./rig.ts";

const PLACE = 4_294_967_296;
const UNRANKED = 2_097_151;
const PERIOD = 4_194_304;

/** A line in which the next wake has place 10, and the places of parents of `acme`: those of `over` are over. */
async function busyLine(over: readonly string[], standing: Readonly<Record<string, number>>) {
  const { redis, keys } = verbRig();
  const places = keys.fairTenant("acme");
  await redis.zadd(keys.rankedWakes, 10 * PLACE, "first");
  await redis.set(keys.fairPeriod, 3);
  for (const [i, parent] of over.entries()) await redis.zadd(places, 3 * PERIOD + 1 + (i % 10), parent);
  for (const [parent, place] of Object.entries(standing))
    await redis.zadd(places, 3 * PERIOD + place, parent);
  const scripts = loadScripts(redis, keys, TIMING);
  let wakes = 0;
  return {
    /** Ranks a wake of the parent; resolves to its place. */
    async rank(fair_parent: string) {
      const job_id = `job-${wakes++}`;
      await redis.zadd(keys.rankedWakes, UNRANKED * PLACE + wakes, job_id);
      const answer = await scripts.run("fair-rank", undefined, { tenant: "acme", job_id, fair_parent });
      return answer.status === "ranked" ? answer.position : answer.status;
    },
    left: () => redis.zcount(places, "-inf", 3 * PERIOD + 10),
  };
}

const parents = (n: number) => Array.from({ length: n }, (_, i) => `p-${i}`);

test("places that are over leave a hundred at a time, and count no more from the start", async () => {
  const line = await busyLine(parents(250), {});
  expect(await line.rank("new")).toBe(10);
  expect(await line.left()).toBe(150);
  expect(await line.rank("p-249")).toBe(11);
  expect([await line.rank("another"), await line.left()]).toEqual([12, 0]);
});

test("the share of a parent is that of those with wakes in the line, however many had some before", async () => {
  const standing = { busy: 20, "": 13 };
  const [long, short] = [await busyLine(parents(900), standing), await busyLine([], standing)];
  for (const parent of ["busy", "new", "p-899", "busy", "new", "busy"])
    expect(await long.rank(parent), parent).toBe(await short.rank(parent));
  // Six times a hundred; one more has a place again.
  expect(await long.left()).toBe(900 - 600 - 1);
});
