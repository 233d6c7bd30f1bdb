/** The soak itself, in seconds: that it works under faults, accounts for everything, and catches a worker that leaks. */
import { expect, test } from "vitest";
import { TIMING } from "../../src/shared/protocol/limits.ts";
import { FAULTS } from "./faults.ts";
import { svgOf, textPlot } from "./plot.ts";
import { plotsOf, TABLE_HEAD, tableLines } from "./rows.ts";
import { runSoak } from "./run.ts";

const SEED = Number(process.env.SOAK_SEED ?? Date.now() % 1_000_000);
const MB = 1024 * 1024;
/** Leases that a busy machine does not lose by itself. */
const timing = {
  ...TIMING,
  leaseMs: 5_000,
  renewMs: 1_000,
  leaseMarginMs: 1_000,
  checkMs: 5_000,
  longestCheckMs: 10_000,
};

test("a short soak under every fault tells each run once, leaves nothing in Redis, and names the worker that leaks", async () => {
  const news: string[] = [];
  const { rows, strikes, marks, account, verdicts } = await runSoak({
    durationMs: 12_000,
    faultEveryMs: 1_000,
    leastStrikes: FAULTS.length,
    sampleEveryMs: 750,
    seed: SEED,
    mortals: 1,
    paceMs: 1_000,
    // Longer than Redis is away: a spawn whose key was forgotten meanwhile would be one more agent.
    retentionMs: 10_000,
    timing,
    leakBytesPerS: 16 * MB,
    onRow: (row) => news.push(...tableLines(row)),
    onNews: (sentence) => news.push(sentence),
  });
  const said = verdicts.map(({ what, verdict, figure }) => `${verdict}  ${what}: ${figure}`);
  const shown = `seed ${SEED}\n${[TABLE_HEAD, ...news.slice(-6), ...said].join("\n")}`;
  process.stdout.write(`${shown}\n`);
  const verdictOf = (what: string) => verdicts.find((one) => one.what === what)?.verdict;
  expect(account.wrong, shown).toEqual([]);
  expect(verdictOf("every run and every end told once"), shown).toBe("holds");
  expect(verdictOf("Redis keys"), shown).toBe("holds");
  expect(verdictOf("workers stop in order"), shown).toBe("holds");
  expect(verdictOf("leaking worker: memory after a collection"), shown).toBe("fails");
  expect(verdictOf("steady worker: memory after a collection"), shown).toBe("too short to judge");
  expect(verdictOf("parents: memory after a collection"), shown).toBe("too short to judge");
  expect(account.runs).toBeGreaterThan(20);
  expect(new Set(strikes.map(({ fault }) => fault)), shown).toEqual(new Set(FAULTS));
  expect(strikes.filter(({ hit }) => hit > 0).length, "faults hit active runs").toBeGreaterThan(0);
  const plots = plotsOf(rows, marks);
  expect(textPlot(plots[0] as (typeof plots)[0])).toContain("● steady worker");
  expect(svgOf(plots).match(/<polyline/g)).toHaveLength(4 * 3 + 2);
});
