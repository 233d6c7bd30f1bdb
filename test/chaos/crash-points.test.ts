/**
 * Guarantee: a crash at any commit of a run corrupts no conversation, repeats no finished tool and buys no committed turn
 * again. Every point is crashed at, on both sides of the commit.
 */
import { beforeAll, expect, test } from "vitest";
import { startPrivateRedis } from "../helpers/redis.ts";
import { type CrashResult, crashAt } from "./crash-batch.ts";
import { BATCHES, type CrashPoint, commitsOf, expectedAt, nameOf, pointsOf } from "./crash-points.ts";

/** Batches that go on side by side. */
const AT_ONCE = 4;
const results = new Map<string, CrashResult>();
const keyOf = (point: CrashPoint) => `${point.host} ${point.idempotent} ${nameOf(point)}`;

beforeAll(async () => {
  const redis = await startPrivateRedis();
  const startedMs = performance.now();
  const waiting = [...BATCHES];
  const perform = async () => {
    for (let batch = waiting.shift(); batch; batch = waiting.shift()) {
      for (const result of await crashAt(redis, pointsOf(batch))) results.set(keyOf(result.point), result);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, perform));
  const tookMs = performance.now() - startedMs;
  process.stdout.write(`${results.size} crash points in ${Math.round(tookMs / 1_000)} s\n`);
}, 300_000);

const cells = BATCHES.flatMap((batch) =>
  [1, 2, 3].map((tools) => ({ ...batch, tools, kind: batch.idempotent ? "idempotent" : "other" })),
);

test.for(cells)(
  "a crash $side any commit of a run with $tools $kind tool calls costs time only, on the $host host",
  ({ tools, ...batch }) => {
    const points = pointsOf(batch).filter((point) => point.tools === tools);
    expect(points).toHaveLength(commitsOf(tools).length);
    const came = points.map((point) => [nameOf(point), results.get(keyOf(point))?.aftermath]);
    expect(came).toEqual(points.map((point) => [nameOf(point), expectedAt(point)]));
  },
);

test("every point was reached by the commits that an undisturbed run makes", () => {
  expect(results.size).toBe(BATCHES.length * 24);
  for (const { point, commits } of results.values())
    expect(commits, nameOf(point)).toEqual(commitsOf(point.tools).slice(0, point.commit));
});
