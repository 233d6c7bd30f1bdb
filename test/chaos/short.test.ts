/**
 * Guarantee: nothing is lost and nothing is done twice while workers die, stop and are cut off, replies get lost, Redis restarts
 * and its clock jumps. The short forms of `npm run test:chaos`; `CHAOS_SEED` repeats one. Long ones: `scripts/test-nightly.mjs`.
 */
import { afterAll, expect, test } from "vitest";
import { reportTime } from "../helpers/figures.ts";
import { runChaos } from "./harness.ts";
import { parseOptions } from "./options.ts";
import { reportOf, type Verdict } from "./report.ts";

const SEED = process.env.CHAOS_SEED ?? String(Date.now() % 1_000_000);
const RUNS = 60;
const FEWEST_FAULTS = 20;
/** All forms of this file together take no longer. */
const TOGETHER_MS = 180_000;
/** A form that hangs says so before this. */
const timeout = 600_000;

let tookMs = 0;
afterAll(() => reportTime("the short forms of chaos together", tookMs, TOGETHER_MS));

/** Runs a form, which must keep every promise. */
async function runShort(...args: string[]): Promise<Verdict> {
  const parsed = parseOptions([...args, "--seed", SEED, "--timing", "short"], Number(SEED));
  if (parsed.status === "invalid") throw new Error(parsed.problem);
  // First: a run that breaks off has no report.
  process.stdout.write(`${parsed.options.command}\n`);
  const verdict = await runChaos(parsed.options, () => {});
  tookMs += verdict.figures.tookMs;
  const report = reportOf(parsed.options, verdict);
  process.stdout.write(`${report}\n`);
  expect(verdict.violations, report).toEqual([]);
  expect(verdict.figures.succeeded).toBe(parsed.options.runs);
  return verdict;
}

test("under faults of every kind each run succeeds once, as an undisturbed one would", {
  timeout,
}, async () => {
  const { figures } = await runShort("--runs", `${RUNS}`, "--kills", "12");
  const { faults, hits } = figures;
  const kinds = ["blackhole", "clock", "kill", "redis", "refuse", "stop"];
  expect(Object.keys(faults)).toEqual(kinds);
  expect(kinds.filter((kind) => (hits[kind] ?? 0) === 0)).toEqual([]);
  const struck = Object.values(faults).reduce((sum, count) => sum + count, 0);
  expect(struck).toBeGreaterThanOrEqual(FEWEST_FAULTS);
});

test("where only some workers have a tool, and Redis' clock jumps forth and back, nothing is lost or repeated", {
  timeout,
}, async () => {
  // The last run of ten begins when every fault has struck, or has found the others over.
  const ten = ["--runs", "10", "--kills", "2", "--workers", "3"];
  const { evidence } = await runShort(...ten, "--faults", "kill,clock", "--fleet", "mixed");
  const jumps = evidence.faults.flatMap(({ jumpMs }) => (jumpMs === undefined ? [] : [Math.sign(jumpMs)]));
  // A jump that met no run is made again.
  expect([...new Set(jumps)]).toEqual([1, -1]);
});

test("a model that takes two to three leases a call, and no look of BullMQ for stalled jobs, lose no run", {
  timeout,
}, async () => {
  const few = ["--runs", "6", "--kills", "1", "--workers", "2", "--faults", "kill"];
  await runShort(...few, "--latency", "5000-7500", "--turns", "2-2", "--no-stalled-check");
});
