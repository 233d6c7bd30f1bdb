/** Guarantee: many runs share one process without getting into each other's way. Prints what it measured. */
import { expect, test } from "vitest";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const AGENTS = Number(process.env.THROUGHPUT_AGENTS ?? 200);
const TURNS = 5;

const scenario = {
  turns: [
    ...Array.from({ length: TURNS - 1 }, (_, turn) => ({
      content: [{ type: "tool_use" as const, name: "glob", input: { pattern: `${turn}/**` } }],
    })),
    { content: [{ type: "text" as const, text: "done" }] },
  ],
};

test(`${AGENTS} agents of ${TURNS} turns share one worker with 50 slots: all succeed, each once`, async () => {
  const warnings: string[] = [];
  const onWarning = (warning: Error) => void warnings.push(String(warning));
  process.on("warning", onWarning);
  const installation = await openStage({ scenario });
  const agents = await Promise.all(Array.from({ length: AGENTS }, (_, i) => installation.task(`work ${i}`)));
  const cpu = process.cpuUsage();
  const startedMs = performance.now();
  const worker = await installation.startWorker({ concurrency: 50 });
  await until(() => installation.offline.ledger.length === AGENTS * TURNS && worker.active().length === 0, {
    timeoutMs: 250_000,
  });
  const tookMs = performance.now() - startedMs;
  const { user, system } = process.cpuUsage(cpu);
  for (const agent of agents) {
    expect(await installation.entries(agent)).toMatchObject([{ status: "succeeded", turns: TURNS }]);
  }
  expect(installation.offline.ledger.every(({ status }) => status === "served")).toBe(true);
  process.off("warning", onWarning);
  expect(warnings).toEqual([]);
  const turns = AGENTS * TURNS;
  process.stdout.write(
    `throughput: ${Math.round((turns / tookMs) * 1_000)} turns/s, ` +
      `${((user + system) / 1_000 / turns).toFixed(2)} ms CPU a turn, offline model included\n`,
  );
});
