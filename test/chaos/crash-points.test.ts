/**
 * Guarantee: a crash at any commit of a run corrupts no conversation, repeats no finished tool and buys no committed turn
 * again. Every point is crashed at, on both sides of the commit.
 */
import { beforeAll, expect, test } from "vitest";
import { startPrivateRedis } from "../helpers/redis.ts";
import { type CrashResult, crashAt } from "./crash-batch.ts";
import { BATCHES, type CrashPoint, commitsOf, expectedAt, nameOf, pointsOf } from "./crash-points.ts";

const results = new Map<string, CrashResult>();
const keyOf = (point: CrashPoint) => `${point.plot} ${point.host} ${nameOf(point)}`;

beforeAll(async () => {
  const redis = await startPrivateRedis();
  const startedMs = performance.now();
  // All side by side: most of their time is waiting for leases to run out.
  const batches = await Promise.allSettled(BATCHES.map((batch) => crashAt(redis, pointsOf(batch))));
  for (const batch of batches) {
    if (batch.status === "rejected") throw batch.reason;
    for (const result of batch.value) results.set(keyOf(result.point), result);
  }
  const tookMs = performance.now() - startedMs;
  process.stdout.write(`${results.size} crash points in ${Math.round(tookMs / 1_000)} s\n`);
});

test.for(BATCHES)(
  "a crash $side any commit of a run that $plot costs time only when it goes on on the $host host",
  (batch) => {
    const points = pointsOf(batch);
    const came = points.map((point) => [nameOf(point), results.get(keyOf(point))?.aftermath]);
    expect(came).toEqual(points.map((point) => [nameOf(point), expectedAt(point)]));
  },
);

test("every point was reached by the commits that an undisturbed run makes", () => {
  const [hosts, sides, kinds] = [2, 2, 2];
  const [finishing, draining] = [3 * 4, 3];
  expect(results.size).toBe(hosts * sides * kinds * (finishing + draining));
  for (const { point, commits } of results.values())
    expect(commits, nameOf(point)).toEqual(commitsOf(point).slice(0, point.commit));
});
