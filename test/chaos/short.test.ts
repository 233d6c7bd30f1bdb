/**
 * Guarantee: nothing is lost and nothing is done twice while workers die, stop and are cut off, replies get lost and
 * Redis restarts. The short form of `npm run test:chaos`; `CHAOS_SEED` repeats one.
 */
import { expect, test } from "vitest";
import { runChaos } from "./harness.ts";
import { parseOptions } from "./options.ts";
import { reportOf } from "./report.ts";

const SEED = process.env.CHAOS_SEED ?? String(Date.now() % 1_000_000);
const RUNS = 60;
const FEWEST_FAULTS = 20;

test("under faults of every kind each run succeeds once, as an undisturbed one would", {
  timeout: 600_000,
}, async () => {
  const parsed = parseOptions(
    ["--runs", `${RUNS}`, "--kills", "12", "--seed", SEED, "--timing", "short"],
    Number(SEED),
  );
  if (parsed.status === "invalid") throw new Error(parsed.problem);
  // First: a run that breaks off has no report.
  process.stdout.write(`${parsed.options.command}\n`);
  const verdict = await runChaos(parsed.options, () => {});
  const report = reportOf(parsed.options, verdict);
  process.stdout.write(`${report}\n`);
  expect(verdict.violations, report).toEqual([]);
  const { faults, hits, succeeded } = verdict.figures;
  expect(succeeded).toBe(RUNS);
  const kinds = ["blackhole", "kill", "redis", "refuse", "stop"];
  expect(Object.keys(faults)).toEqual(kinds);
  expect(kinds.filter((kind) => (hits[kind] ?? 0) === 0)).toEqual([]);
  const struck = Object.values(faults).reduce((sum, count) => sum + count, 0);
  expect(struck).toBeGreaterThanOrEqual(FEWEST_FAULTS);
});
