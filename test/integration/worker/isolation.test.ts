/**
 * Guarantee: isolation never stalls the pool. A run that kills its worker in a tool kills one, is found in processes of its own,
 * and every other run goes on while newcomers find a place at once. `ISOLATION_RUNS` (default 6) runs of `ISOLATION_RUN_MS`
 * (default 1,000) that begin within `ISOLATION_SPREAD_MS` (default 1,000) on `ISOLATION_WORKERS` (default 2) with
 * `ISOLATION_PLACES` (default 8) each. From 40 runs on with production's leases, for a run that hangs as well, and the times are
 * asserted.
 */
import { expect, test, vi } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { percentile } from "../../helpers/figures.ts";
import { keepWorkers } from "../../helpers/kept-workers.ts";
import { type Agent, openStage, SHORT_TIMING, type Stage } from "../../stage/stage.ts";

const RUNS = Number(process.env.ISOLATION_RUNS ?? 6);
const RUN_MS = Number(process.env.ISOLATION_RUN_MS ?? 1_000);
const SPREAD_MS = Number(process.env.ISOLATION_SPREAD_MS ?? 1_000);
const WORKERS = Number(process.env.ISOLATION_WORKERS ?? 2);
const PLACES = Number(process.env.ISOLATION_PLACES ?? 8);
const IS_LONG = RUNS >= 40;
const timing = IS_LONG ? TIMING : { ...SHORT_TIMING, leaseMs: 5_000, renewMs: 1_000, leaseMarginMs: 1_000 };
const NEWCOMER_EVERY_MS = 1_000;
const NEWCOMER_MS = 100;
const NEWCOMERS_WAIT_MS = 3_000;
const LONG_MS = 60_000 + RUNS * RUN_MS;

vi.setConfig({ testTimeout: LONG_MS + 30_000 });

const done = { content: [{ type: "text" as const, text: "done" }] };
const kill = (tool: string) => ({
  content: [{ type: "tool_use" as const, name: tool, input: {} }],
  latencyMs: 200,
});

/** Sends a short task every second until told to stop, and answers how long each waited for its place, ms. */
function sendNewcomers(installation: Stage) {
  const stopping = new AbortController();
  const waits: Promise<number>[] = [];
  const wait = async (i: number): Promise<number> => {
    const sentMs = performance.now();
    const agent = await installation.task(`newcomer ${i}`);
    await installation.reply(agent, 1, LONG_MS);
    return Math.max(0, performance.now() - sentMs - NEWCOMER_MS);
  };
  const going = (async () => {
    while (!stopping.signal.aborted) {
      waits.push(wait(waits.length));
      await systemClock.sleep(NEWCOMER_EVERY_MS, stopping.signal);
    }
  })();
  return {
    async stop(): Promise<number[]> {
      stopping.abort();
      await going;
      return (await Promise.all(waits)).sort((a, b) => a - b);
    },
  };
}

const POISONS = [
  ["ends its process", "abort"],
  ["hangs", "hang"],
] as const;

test.each(IS_LONG ? POISONS : POISONS.slice(0, 1))(
  `a run that %s is lost; ${RUNS} neighbours succeed once each, and newcomers find a place`,
  async (_, tool) => {
    const installation = await openStage({
      timing,
      latencyMs: RUN_MS,
      scenario: [
        { match: { user: "poison" }, turns: [kill(tool)] },
        { match: { user: "newcomer" }, turns: [{ ...done, latencyMs: NEWCOMER_MS }] },
        { match: { user: "good" }, turns: [done] },
      ],
    });
    const options = { concurrency: PLACES, isolation: true, watchdog: true };
    const poison = await installation.spawn();
    const neighbours: Agent[] = await Promise.all(Array.from({ length: RUNS }, () => installation.spawn()));
    const pool = keepWorkers(installation, WORKERS, [poison, ...neighbours], options);
    await pool.up;
    const startedMs = performance.now();
    const newcomers = sendNewcomers(installation);
    for (const [i, agent] of neighbours.entries()) {
      if (i === 2) await installation.send(poison, "poison");
      await installation.send(agent, `good ${i}`);
      await systemClock.sleep(SPREAD_MS / RUNS);
    }
    const replies = await Promise.all(neighbours.map((agent) => installation.reply(agent, 1, LONG_MS)));
    const neighboursMs = performance.now() - startedMs;
    expect(await installation.reply(poison, 1, LONG_MS)).toMatchObject({
      status: "failed",
      stop_reason: "worker_lost",
    });
    const poisonMs = performance.now() - startedMs;
    const waits = await newcomers.stop();
    await pool.stop();
    const figures = [
      `neighbours ${(neighboursMs / 1_000).toFixed(1)} s, poison ${(poisonMs / 1_000).toFixed(1)} s`,
      `newcomers p50 ${percentile(waits, 0.5).toFixed(0)} p95 ${percentile(waits, 0.95).toFixed(0)} ms`,
      `workers died with ${pool.deaths.map(({ held }) => held.length)} runs`,
    ];
    process.stdout.write(`isolation of a run that ${tool}s: ${figures.join("; ")}\n`);

    for (const reply of replies) expect(reply).toMatchObject({ status: "succeeded" });
    for (const agent of neighbours) expect(await installation.entries(agent)).toHaveLength(1);
    // The run dies in a tool: that makes it a suspect, and no other worker dies of it.
    expect(pool.deaths.length).toBeGreaterThanOrEqual(1);
    expect(pool.deaths.length, JSON.stringify(pool.deaths)).toBeLessThanOrEqual(2);
    if (!IS_LONG) return;
    expect(percentile(waits, 0.95)).toBeLessThanOrEqual(NEWCOMERS_WAIT_MS);
    expect(neighboursMs).toBeLessThanOrEqual(2 * (SPREAD_MS + RUN_MS));
  },
);
